"""Fed-Heart-Disease with five classes: golden values on the real files, and an independent preparation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import train_test_split

from bench._datasets import uci_heart
from bench.data import load_dataset
from bench.registry import load
from bench.types import Federation
from tests.datasets import heart_files

adapter = load("datasets", "fed_heart_disease_5class").__globals__
PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def federation(bench_data: Path) -> Federation:
    return load_dataset("fed_heart_disease_5class", bench_data)


def test_sizes_and_classes_are_golden(federation: Federation):
    counts = {
        client.name: [torch.bincount(getattr(client, part).y, minlength=5).tolist() for part in PARTS]
        for client in federation.clients
    }
    assert {name: [sum(part) for part in parts] for name, parts in counts.items()} == {
        "cleveland": [193, 49, 61],
        "hungarian": [166, 42, 53],
        "switzerland": [28, 8, 10],
        "va_long_beach": [83, 21, 26],
    }
    total = np.sum([part for parts in counts.values() for part in parts], axis=0)
    assert total.tolist() == [357, 204, 79, 78, 22]
    assert counts["switzerland"] == [[1, 7, 10, 8, 2], [0, 4, 2, 2, 0], [0, 1, 2, 6, 1]]
    assert (federation.task, federation.classes) == ("multiclass", 5)
    assert federation.fingerprint == "229fa0a2f7e6fe69f928725e484cf4f798ff19d9cdbf0a21ae2a933a86d14c8b"


@pytest.mark.parametrize("number", range(4))
def test_values_equal_an_independent_preparation(tmp_path: Path, number: int):
    with heart_files.made(tmp_path):
        client = load_dataset("fed_heart_disease_5class", tmp_path).clients[number]
    path = tmp_path / uci_heart.FILES[client.name].path
    frame = pd.read_csv(path, header=None, na_values="?")[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13]].dropna()
    rest, test = train_test_split(frame, test_size=0.2, random_state=42)
    train, validation = train_test_split(rest, test_size=0.2, random_state=42)
    centre = [53.0872973, 0, 3.23702703, 132.74405405, 220.23648649, 0, 0.64513514, 138.75459459, 0, 0.89532432]
    variance = [70.1459463, 1, 0.817756772, 345.493057, 4884.30934, 1, 0.592069868, 529.172208, 1, 1.11317517]
    for part, rows in zip(PARTS, (train, validation, test), strict=True):
        expected = (rows.drop(columns=13) - np.array(centre)) / np.array(variance) ** 0.5
        np.testing.assert_allclose(getattr(client, part).x, expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(getattr(client, part).y, rows[13])


def test_class_weights_are_those_of_all_rows(bench_data: Path, federation: Federation):
    rows = np.concatenate([uci_heart.complete(uci_heart.read(site, bench_data)) for site in uci_heart.FILES])
    shares = np.bincount(rows[:, -1].astype(int)) / 740
    np.testing.assert_allclose(federation.loss["alpha"], (1 - shares) / 4, atol=1e-8)
    loss = dict(federation.loss)
    assert (loss["name"], loss["gamma"], loss["scale"]) == ("focal_all_classes", 3, 10)
    assert federation.metrics == ("macro_f1", "accuracy", "loss")


def test_first_row_by_hand():
    row = "53.0872973,1.0,3.23702703,132.74405405,220.23648649,1.0,2.0,150.0,0.0,0.89532432,3.0,0.0,6.0,4\n"
    x, y = adapter["features"](uci_heart.complete(uci_heart.parse(row.replace("3.23702703", "4"), "file")))
    np.testing.assert_allclose(x[0], [0, 1, 0.84371, 0, 0, 1, 1.76081, 0.48887, 0, 0], atol=2e-5)
    assert y.tolist() == [4]
