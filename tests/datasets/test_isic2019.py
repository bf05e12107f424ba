"""Both preparations of ISIC 2019: sizes of FLamby's real table, and small photographs in the published formats."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from bench._datasets import isic2019
from bench.data import load_dataset
from bench.data.readers import photographs
from bench.registry import load
from bench.types import DataError

PUBLISHED = "ISIC_2019_Training_Input"
flamby = load("datasets", "fed_isic2019").__globals__
player = load("datasets", "isic2019_4class").__globals__


@pytest.fixture(scope="module")
def table(bench_data: Path) -> pd.DataFrame:
    return isic2019.read_split(bench_data)


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table in FLamby's format with one photograph of every lesion, part and centre, and an empty cache."""
    keys = [(centre, fold, lesion) for lesion in range(8) for fold in ("train", "test") for centre in range(6)]
    rows = pd.DataFrame(keys, columns=["center", "fold", "target"])
    rows = rows.assign(image=[f"ISIC_{number * 7919 % 100000:07d}" for number in range(len(rows))])
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr(isic2019, "read_split", lambda root: rows.copy())
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return rows


@pytest.fixture
def raw(few: pd.DataFrame, tmp_path: Path) -> Path:
    """A data folder with photographs of several sizes, stored as the published ones."""
    folder = tmp_path / "raw" / PUBLISHED
    folder.mkdir(parents=True)
    sizes = [(256, 256), (300, 225), (230, 310), (277, 400)]
    pixels = {size: np.random.default_rng(size).integers(30, 250, (*size[::-1], 3), dtype=np.uint8) for size in sizes}
    for number, photo in enumerate(few["image"]):
        Image.fromarray(np.roll(pixels[sizes[number % 4]], number, axis=1)).save(folder / f"{photo}.jpg")
    return folder.parent


def test_sizes_and_classes_of_flambys_clients(table: pd.DataFrame):
    sizes = table.groupby(["center", "fold"]).size().unstack()[["train", "test"]]
    assert sizes.to_numpy().tolist() == [
        [9930, 2483],
        [3163, 791],
        [2691, 672],
        [1807, 452],
        [655, 164],
        [351, 88],
    ]
    train = table[table["fold"] == "train"]
    assert train["target"].value_counts().sort_index().tolist() == [3332, 9084, 2649, 712, 1950, 184, 201, 485]
    assert table["image"].is_unique


def test_sizes_and_classes_of_the_four_sites(table: pd.DataFrame):
    sites = player["sampled"](table)
    sizes = {site: tuple(len(part) for part in player["split"](sites[site])) for site in player["SITES"]}
    assert sizes == {
        "bcn": (3200, 800, 1000),
        "rosendahl": (1235, 309, 387),
        "vidir_modern": (2046, 512, 640),
        "vidir_molemax": (2476, 620, 774),
    }
    counts = {site: np.bincount(sites[site]["label"]).tolist() for site in player["SITES"][1:]}
    assert counts == {
        "rosendahl": [296, 490, 342, 803],
        "vidir_modern": [211, 475, 680, 1832],
        "vidir_molemax": [2, 124, 24, 3720],
    }
    for site in player["SITES"]:
        parts = player["split"](sites[site])
        assert len(set(pd.concat(parts)["image"])) == len(sites[site])


def test_the_sample_is_the_authors(table: pd.DataFrame):
    """The class weights in PLayer-FL's code follow from the number of photographs of each lesion in the sample."""
    weights = player["alpha"](player["sampled"](table))
    np.testing.assert_allclose(weights, [0.87868852, 0.88131148, 0.82793443, 0.41206557], rtol=0, atol=5e-9)


def test_fed_isic2019(few: pd.DataFrame, raw: Path):
    federation = load_dataset("fed_isic2019", raw)
    assert [client.name for client in federation.clients] == list(isic2019.CENTRES)
    assert (federation.classes, federation.metrics) == (8, ("balanced_accuracy",))
    for number, client in enumerate(federation.clients):
        for fold, part in (("train", client.train), ("test", client.test)):
            rows = few[(few["center"] == number) & (few["fold"] == fold)]
            assert part.y.tolist() == rows["target"].tolist()
            assert part.x.shape == (len(rows), 3, 224, 224)
            assert part.x.dtype == torch.uint8
    photo = few[(few["center"] == 2) & (few["fold"] == "test")]["image"].iloc[1]
    image = photographs.standardised(photographs.read_jpeg(raw / PUBLISHED / f"{photo}.jpg"), 224)
    pixels = np.asarray(image)
    top, left = (pixels.shape[0] - 200) // 2, (pixels.shape[1] - 200) // 2
    middle = pixels[top : top + 200, left : left + 200]
    mean, std = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    seen = federation.prepare(federation.clients[2].test.x[:2])[1].permute(1, 2, 0)
    np.testing.assert_allclose(seen, (middle / 255 - mean) / std, atol=1e-5)


@pytest.mark.parametrize("name", ["fed_isic2019", "isic2019_4class"])
def test_as_many_pixels_are_seen_in_training_validation_and_tests(few: pd.DataFrame, raw: Path, name: str):
    """Parts share the memory of the cached file: no photograph is copied."""
    federation = load_dataset(name, raw)
    for client in federation.clients:
        for part in (client.train, client.validation, client.test):
            if part is not None:
                assert part.x.untyped_storage().data_ptr() == federation.clients[0].train.x.untyped_storage().data_ptr()
                assert federation.prepare(part.x).shape == (len(part), 3, 200, 200)
    x = federation.clients[0].train.x[:2]
    assert federation.augment(x, torch.tensor([1, 2])).shape == (2, 3, 200, 200)


def test_focal_weights_on_all_photographs(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch):
    blank = torch.zeros(1, dtype=torch.uint8)
    monkeypatch.setattr(isic2019, "squares", lambda name, photos, root: blank.expand(len(photos), 3, 224, 224))
    monkeypatch.setattr(isic2019, "read_split", lambda root: table)
    federation = load_dataset("fed_isic2019")
    expected = [5.5813, 2.0472, 7.0204, 26.1194, 9.5369, 101.0707, 92.5224, 38.3443]
    np.testing.assert_allclose(federation.loss["alpha"], expected, rtol=0, atol=5e-5)
    assert (federation.loss["name"], federation.loss["gamma"]) == ("focal", 2.0)
    assert [(len(client.train), len(client.test)) for client in federation.clients][:2] == [(9930, 2483), (3163, 791)]


def test_published_prepared_and_zipped_photographs_are_the_same(few: pd.DataFrame, raw: Path, tmp_path: Path):
    published = load_dataset("fed_isic2019", raw).fingerprint
    prepared, zipped = tmp_path / "prepared" / "fed_isic2019" / isic2019.PREPARED, tmp_path / "zipped"
    prepared.mkdir(parents=True)
    zipped.mkdir()
    with zipfile.ZipFile(zipped / f"{PUBLISHED}.zip", "w") as opened:
        for photo in few["image"]:
            file = raw / PUBLISHED / f"{photo}.jpg"
            opened.write(file, f"{PUBLISHED}/{photo}.jpg")
            image: Any = photographs.standardised(photographs.read_jpeg(file), 224)
            (prepared / f"{photo}.jpg").write_bytes(image.fp.getvalue())
    assert load_dataset("fed_isic2019", tmp_path / "prepared").fingerprint == published
    assert load_dataset("fed_isic2019", zipped).fingerprint == published


def test_isic2019_4class(few: pd.DataFrame, raw: Path):
    federation = load_dataset("isic2019_4class", raw)
    assert [client.name for client in federation.clients] == list(player["SITES"])
    rows = player["split"](player["sampled"](few)["vidir_modern"])
    client = federation.clients[2]
    for part, expected in zip((client.train, client.validation, client.test), rows, strict=True):
        assert part.y.tolist() == expected["label"].tolist()
    assert {part.x.shape[1:] for part in (client.train, client.validation, client.test)} == {(3, 224, 224)}
    other = load_dataset("fed_isic2019", raw)
    photo = rows[0]["image"].iloc[0]
    column = few[few["center"] == 2].sort_values("fold", ascending=False, kind="stable")["image"].tolist()
    place = column.index(photo)
    both = [other.clients[2].train, other.clients[2].test]
    part, place = (both[0], place) if place < len(both[0]) else (both[1], place - len(both[0]))
    assert torch.equal(client.train.x[0], part.x[place])


def test_a_missing_photograph_is_named(few: pd.DataFrame, raw: Path):
    photo = few["image"].iloc[5]
    (raw / PUBLISHED / f"{photo}.jpg").unlink()
    with pytest.raises(
        DataError, match=rf"1 photographs are missing, the first is {photo}\.jpg; download https://isic"
    ):
        load_dataset("fed_isic2019", raw)


def test_a_prepared_photograph_of_another_size_is_refused(few: pd.DataFrame, raw: Path):
    (raw / PUBLISHED).rename(raw / isic2019.PREPARED)
    with pytest.raises(DataError, match=r"\.jpg: has 256 x 256 pixels, expected a shorter side of 224"):
        load_dataset("fed_isic2019", raw)


def test_without_the_photographs_the_error_says_where_to_get_them(few: pd.DataFrame, tmp_path: Path):
    with pytest.raises(DataError, match=r"fed_isic2019/.*: not found in .*; download https://isic-challenge-data"):
        load_dataset("fed_isic2019", tmp_path)
