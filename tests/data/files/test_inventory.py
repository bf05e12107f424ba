"""Inventory: the state of raw files and cached arrays, and deletion of damaged ones."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.data.files import cache, cards, inventory
from bench.data.files.cards import Card
from bench.data.files.raw_file import RawFile

CHECKED = RawFile("toy/checked.csv", hashlib.sha256(b"1").hexdigest(), 1, ("https://one.example/checked.csv",))
UNCHECKED = RawFile("toy/unchecked.csv", alternatives=("toy/folder",), obtain="ask for it")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for the data set "toy", whose card declares both files; the cache is empty."""
    monkeypatch.setattr(cards, "read", lambda name: Card(name, "", files=(CHECKED, UNCHECKED)))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def states(folder: Path | None) -> list[tuple[str, str]]:
    return [(Path(status.file).name, status.state) for status in inventory.examine("toy", folder)]


def prepare(folder: Path) -> Path:
    """Prepare an array of the data set; return the cached file."""
    (folder / "raw").write_text("raw")
    layout = {"x": ((3,), "uint8")}
    cache.prepared("toy", inputs=[folder / "raw"], code=[], layout=layout, fill=lambda arrays: None)
    (found,) = cache.folders("toy")
    return found / "x.npy"


def test_missing_files_are_absent(folder: Path):
    checked, unchecked = inventory.examine("toy", folder)
    assert (checked.file, checked.state, checked.detail) == (CHECKED.path, "absent", CHECKED.identity)
    assert (unchecked.file, unchecked.state) == ("toy/unchecked.csv or toy/folder", "absent")


def test_files_are_compared_with_their_checksum(folder: Path):
    (folder / "checked.csv").write_bytes(b"1")
    (folder / "toy" / "folder").mkdir(parents=True)
    assert states(folder) == [("checked.csv", "intact"), ("folder", "unpinned")]
    (folder / "checked.csv").write_bytes(b"2")
    (status, _) = inventory.examine("toy", folder)
    assert status.state == "damaged"
    assert status.detail.endswith("; delete it and run `silobench data prepare toy`")


def test_an_alternative_to_a_file_with_a_checksum_is_unpinned(folder: Path, monkeypatch: pytest.MonkeyPatch):
    file = replace(CHECKED, alternatives=("toy/unpacked",))
    monkeypatch.setattr(cards, "read", lambda name: Card(name, "", files=(file,)))
    assert states(folder) == [("checked.csv", "absent")]
    (folder / "toy" / "unpacked").mkdir(parents=True)
    assert states(folder) == [("unpacked", "unpinned")]


def test_a_damaged_download_needs_no_deletion_by_hand(folder: Path):
    file = folder.parent / "cache" / CHECKED.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"2")
    (status, _) = inventory.examine("toy", folder)
    assert (status.file, status.state) == (str(file), "damaged")
    assert status.detail.endswith(f"sha256 {hashlib.sha256(b'2').hexdigest()}; run `silobench data prepare toy`")


def test_only_damaged_arrays_are_deleted(folder: Path):
    file = prepare(folder)
    assert np.load(file).shape == (3,)
    assert states(None)[2:] == [("x.npy", "intact")]
    assert inventory.discard_damaged("toy") == []
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert states(None)[2:] == [("x.npy", "damaged")]
    assert inventory.discard_damaged("toy") == [file.parent]
    assert cache.folders("toy") == []
