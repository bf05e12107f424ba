"""Checksum manifests of folders: intact, changed, missing and added files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.data.files import hashes, manifest
from bench.types import DataError

QUESTION = {"about": "some files"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = manifest.place(tmp_path, QUESTION)
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one").write_text("1")
    (folder / "two").write_text("2")
    manifest.write(folder, QUESTION)
    return folder


def test_an_intact_folder_has_no_deviations(folder: Path):
    assert manifest.deviations(folder) == {"a/one": "", "two": ""}
    manifest.check(folder, "delete it")


def test_changed_and_missing_files_are_named(folder: Path):
    (folder / "two").write_text("22")
    (folder / "a" / "one").unlink()
    found = manifest.deviations(folder)
    assert found == {"a/one": "the file is missing", "two": "expected 1 bytes, found 2"}
    with pytest.raises(DataError, match=r"a/one: is damaged: the file is missing; delete it$"):
        manifest.check(folder, "delete it")


def test_a_new_time_without_a_change_is_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """After one comparison of checksums, the stamps are enough again."""
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    for name in ("a/one", "two"):
        os.utime(folder / name, ns=(0, 0))
    assert manifest.deviations(folder) == {"a/one": "", "two": ""}
    monkeypatch.setattr(manifest, "sha256", lambda file: pytest.fail(f"{file} was read again"))
    assert manifest.deviations(folder) == {"a/one": "", "two": ""}


def test_a_file_that_cannot_be_read_is_a_deviation(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(file: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(manifest, "sha256", broken)
    assert manifest.deviations(folder)["two"] == "cannot be read (Input/output error)"


def test_the_folder_of_another_question_is_a_deviation(folder: Path):
    other = folder.rename(manifest.place(folder.parent, {"about": "other files"}))
    assert manifest.deviations(other) == {manifest.MANIFEST: f"it belongs to the folder {folder.name}"}
    assert manifest.folders(folder.parent) == [other]


def test_a_file_that_was_added_later_is_not_part_of_the_manifest(folder: Path):
    (folder / "three").touch()
    assert set(manifest.deviations(folder)) == {"a/one", "two"}
