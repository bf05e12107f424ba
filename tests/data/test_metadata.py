"""Metadata of data sets: their values, and when the cached entry is used, replaced or ignored."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from bench.data import load_dataset, metadata
from bench.data.metadata import Metadata, dataset_metadata
from bench.types import Client, Federation, Split


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    return tmp_path / "cache"


def client(name: str, samples: int, classes: int | None, test: bool) -> Client:
    def split() -> Split:
        return Split(torch.zeros(samples, 3, 6, 6), torch.zeros(samples, dtype=torch.int64))

    return Client(name, split(), split() if test else None, classes=classes)


def test_values_describe_each_client_as_a_model_sees_it():
    clients = (client("a", 4, None, True), client("b", 2, 2, False))
    federation = Federation("toy", clients, "multiclass", classes=5, prepare=lambda x: x[:, :, 1:-1, 1:-1])
    found = Metadata.of(federation)
    assert (found.clients, found.test_sizes, found.classes) == (("a", "b"), (4, 0), (5, 2))
    assert (found.shapes, found.sample, found.embeddings) == (((3, 4, 4), (3, 4, 4)), 108, None)
    vectors = dataclasses.replace(federation, embeddings=torch.zeros(7, 2))
    assert Metadata.of(vectors).embeddings == (7, 2)


def test_a_cached_entry_has_the_same_values_and_is_not_loaded(monkeypatch: pytest.MonkeyPatch):
    expected = Metadata.of(load_dataset("digits"))
    assert dataset_metadata("digits", None, {}) == expected
    monkeypatch.setattr(metadata, "load_dataset", lambda *_, **__: pytest.fail("the data set was loaded again"))
    assert dataset_metadata("digits", None, {}) == expected


def test_other_options_have_an_entry_of_their_own():
    first, second = (dataset_metadata("digits", None, {"partition_seed": seed}) for seed in (0, 1))
    assert first.fingerprint != second.fingerprint


def test_changed_raw_files_are_loaded_again(tmp_path: Path):
    options = {"path": "stays.csv", "site_column": "site", "target": "died"}
    table = "site,age,died\n" + "".join(f"{'ab'[n % 2]},{n},{n // 2 % 2}\n" for n in range(12))
    (tmp_path / "stays.csv").write_text(table)
    before = dataset_metadata("from_csv", tmp_path, options)
    assert dataset_metadata("from_csv", tmp_path, options).fingerprint == before.fingerprint
    (tmp_path / "stays.csv").write_text(table.replace("a,0,", "a,9,"))
    os.utime(tmp_path / "stays.csv", ns=(0, 0))
    assert dataset_metadata("from_csv", tmp_path, options).fingerprint != before.fingerprint


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"checksum": "0", "sources": {}, "metadata": {}}'])
def test_a_damaged_entry_is_replaced(cache: Path, content: bytes):
    expected = dataset_metadata("digits", None, {})
    (file,) = (cache / "metadata").iterdir()
    intact = file.read_bytes()
    file.write_bytes(content)
    assert dataset_metadata("digits", None, {}) == expected
    assert file.read_bytes() == intact
