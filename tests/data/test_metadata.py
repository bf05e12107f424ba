"""Metadata of data sets: their values, and when the cached entry is used, replaced or ignored."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.data import load_dataset, metadata
from bench.data.files import hashes
from bench.data.metadata import Metadata, dataset_metadata
from bench.registry import stored
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


def table(ages: int) -> str:
    rows = (f"{'ab'[n % 2]},{10 + n * ages % 17},{n // 2 % 2}\n" for n in range(12))
    return "site,age,died\n" + "".join(rows)


OPTIONS = {"path": "stays.csv", "site_column": "site", "target": "died"}


@pytest.fixture
def stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A raw file whose metadata are cached although it is new."""
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    file = tmp_path / "stays.csv"
    file.write_text(table(ages=10))
    before = fingerprint(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "load_dataset", lambda *_, **__: pytest.fail("the data set was loaded again"))
        assert fingerprint(tmp_path) == before
    return file


def fingerprint(root: Path | None, path: str = "stays.csv") -> str:
    return dataset_metadata("from_csv", root, OPTIONS | {"path": path}).fingerprint


def loaded(root: Path | None, path: str = "stays.csv") -> str:
    return load_dataset("from_csv", root, **OPTIONS | {"path": path}).fingerprint


def test_changed_raw_files_are_loaded_again(stays: Path):
    before = fingerprint(stays.parent)
    stays.write_text(table(ages=20))
    os.utime(stays, ns=(0, 0))
    assert fingerprint(stays.parent) == loaded(stays.parent) != before


def test_a_changed_file_of_equal_size_and_time_is_loaded_again(stays: Path):
    before, state = fingerprint(stays.parent), stays.stat()
    stays.write_text(table(ages=20))
    os.utime(stays, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (stays.stat().st_size, stays.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    assert fingerprint(stays.parent) == loaded(stays.parent) != before


def test_a_file_of_the_same_name_in_another_folder_is_another_file(stays: Path, tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "stays.csv").write_text(table(ages=20))
    assert fingerprint(tmp_path / "other") == loaded(tmp_path / "other") != fingerprint(stays.parent)


def test_swapped_folders_are_loaded_again(stays: Path, tmp_path: Path):
    """The files in a folder that is renamed keep all their times."""
    for name, ages in (("one", 10), ("other", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stays.csv").write_text(table(ages))
        os.utime(tmp_path / name / "stays.csv", ns=(0, 0))
    before = fingerprint(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "aside")
    (tmp_path / "other").rename(tmp_path / "one")
    assert fingerprint(tmp_path / "one") == loaded(tmp_path / "one") != before


def test_another_home_or_working_folder_is_another_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    found = []
    for name, ages in (("one", 10), ("other", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stays.csv").write_text(table(ages))
        monkeypatch.setenv("HOME", str(tmp_path / name))
        monkeypatch.chdir(tmp_path / name)
        found.append([fingerprint(None, "~/stays.csv"), fingerprint(None)])
        assert found[-1] == [loaded(None, "~/stays.csv"), loaded(None)]
    assert found[0] != found[1]


def test_another_version_of_a_library_loads_again(stays: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []
    monkeypatch.setattr(
        metadata, "load_dataset", lambda *args, **given: calls.append(args) or load_dataset(*args, **given)
    )
    fingerprint(stays.parent)
    monkeypatch.setattr(metadata, "versions", lambda libraries: dict.fromkeys(libraries, "0.1"))
    fingerprint(stays.parent)
    assert calls == [("from_csv", stays.parent)]


def test_a_file_changed_while_it_is_loaded_is_not_cached(stays: Path):
    def load(*args: Any, **options: Any) -> Federation:
        found = load_dataset(*args, **options)
        stays.write_text(table(ages=20))
        return found

    stays.write_text(table(ages=30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "load_dataset", load)
        fingerprint(stays.parent)
    assert fingerprint(stays.parent) == loaded(stays.parent)


WARD = """
from bench.data import from_arrays
from bench.data.files.locate import locate
from bench.data.files.raw_file import RawFile
from bench.registry import register
from bench.types import Federation
from someones.units import FACTOR


@register("ward")
def ward(root=None):
    '''One number as data.'''
    number = FACTOR * float(locate(RawFile("ward.txt", obtain="ask the ward"), root).read_text())
    site = {"train": ([[number], [1.0]], [0, 1]), "test": ([[0.0]], [0])}
    return Federation.from_arrays({"north": site, "south": site})
"""


@pytest.fixture
def ward(tmp_path: Path, install: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of raw files of an installed data set, and its helper module, all of which are new."""
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    monkeypatch.setattr(stored, "_is_as_at_start", lambda file: True)
    files = {"someones/ward.py": WARD, "someones/units.py": "FACTOR = 3.0\n"}
    install("datasets", {"ward": "someones.ward"}, files)
    folder = tmp_path / "later"
    folder.mkdir()
    (folder / "ward.txt").write_text("1")
    return folder


def test_a_raw_file_that_appears_in_a_folder_searched_earlier_is_used(ward: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_DATA", str(ward))
    earlier = ward.with_name("earlier")
    earlier.mkdir()
    before = dataset_metadata("ward", earlier, {})
    assert dataset_metadata("ward", earlier, {}) == before
    (earlier / "ward.txt").write_text("2")
    assert dataset_metadata("ward", earlier, {}).fingerprint != before.fingerprint


def test_an_edited_helper_module_of_an_installed_data_set_loads_again(ward: Path, tmp_path: Path):
    before = dataset_metadata("ward", ward, {})
    (tmp_path / "site" / "someones" / "units.py").write_text("FACTOR = 4.0\n")
    for name in ("someones.ward", "someones.units"):
        del sys.modules[name]
    importlib.invalidate_caches()
    found = dataset_metadata("ward", ward, {})
    assert found.fingerprint == load_dataset("ward", ward).fingerprint != before.fingerprint


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"checksum": "0", "sources": {}, "metadata": {}}'])
def test_a_damaged_entry_is_replaced(cache: Path, content: bytes):
    expected = dataset_metadata("digits", None, {})
    (file,) = (cache / "metadata").iterdir()
    intact = file.read_bytes()
    file.write_bytes(content)
    assert dataset_metadata("digits", None, {}) == expected
    assert file.read_bytes() == intact
