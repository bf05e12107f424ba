"""Hashes of files: when a file is read again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.data.files import hashes
from bench.files import cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("one")
    return tmp_path / "folder" / "file"


def test_unchanged_files_are_not_read_again(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    found = hashes.combined([file])
    monkeypatch.setattr(hashes, "sha256", lambda file: pytest.fail("the file was read again"))
    assert hashes.combined([file]) == found


def test_the_hash_of_a_file_that_just_changed_is_not_kept(file: Path):
    """Another change within the same step of the clock would leave its times as they are."""
    hashes.combined([file])
    assert not (cache_folder() / "inputs").exists()


def test_the_order_of_files_matters(file: Path, tmp_path: Path):
    (tmp_path / "other").write_text("two")
    assert hashes.combined([file, tmp_path / "other"]) != hashes.combined([tmp_path / "other", file])


def rewritten(file: Path) -> None:
    file.write_text("two")


def replaced(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("two")
    other.replace(file)


def swapped_with_its_folder(file: Path) -> None:
    other = file.parent.with_name("other")
    other.mkdir()
    (other / file.name).write_text("two")
    file.parent.rename(other.with_name("aside"))
    other.rename(file.parent)


@pytest.mark.parametrize("change", [rewritten, replaced, swapped_with_its_folder])
def test_other_content_of_equal_size_and_modification_time_is_read(
    file: Path, change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    before, found = file.stat().st_mtime_ns, hashes.combined([file])
    time.sleep(0.05)  # a step of the clock of the file system
    change(file)
    os.utime(file, ns=(before, before))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (3, before)
    assert hashes.combined([file]) != found
