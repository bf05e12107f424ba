"""Search for files without a checksum: order of folders and names, messages, and tracking."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.data.files.locate import at_hand, locate, locate_path, tracked
from bench.data.files.raw_file import RawFile
from bench.types import DataError

FILE = RawFile("folder/first", alternatives=("second",), obtain="ask the ward and put it there")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The three folders that are searched, in this order."""
    made = [tmp_path / name for name in ("root", "data", "cache")]
    for folder in made:
        folder.mkdir()
    monkeypatch.setenv("BENCH_DATA", str(made[1]))
    monkeypatch.setenv("BENCH_CACHE", str(made[2]))
    return made


def test_the_path_is_preferred_to_alternatives_and_earlier_folders_to_later_ones(folders: list[Path]):
    for folder in reversed(folders):
        (folder / "second").mkdir()
        assert locate(FILE, folders[0]) == folder / "second"
    (folders[2] / "first").touch()
    assert locate(FILE, folders[0]) == folders[2] / "first"
    (folders[2] / "folder").mkdir()
    (folders[2] / "folder" / "first").touch()
    assert locate(FILE, folders[0]) == folders[2] / "folder" / "first"


def test_the_error_has_names_folders_and_how_to_get_the_file(folders: list[Path]):
    with pytest.raises(DataError) as caught:
        locate(FILE, folders[0])
    places = ", ".join(map(str, folders))
    assert str(caught.value) == f"folder/first or second: not found in {places}; ask the ward and put it there"


def test_a_checked_file_without_urls_is_not_downloaded(folders: list[Path]):
    with pytest.raises(DataError, match=r"^folder/first: not found in .*/cache; ask the ward and put it there$"):
        locate(RawFile("folder/first", sha256="0" * 64, obtain=FILE.obtain), folders[0])


def test_an_exact_path_is_not_replaced_by_a_file_of_the_same_name(folders: list[Path]):
    (folders[0] / "file").touch()
    with pytest.raises(DataError, match=r"^folder/file: not found in .*; omit the option$"):
        locate_path("folder/file", folders[0], "omit the option")
    (folders[1] / "folder").mkdir()
    (folders[1] / "folder" / "file").touch()
    assert locate_path("folder/file", folders[0], "omit the option") == folders[1] / "folder" / "file"


def test_at_hand_finds_files_in_every_folder_and_unpacked_archives(folders: list[Path]):
    archive = RawFile("a.zip", sha256="0" * 64, urls=("https://one.example/a.zip",))
    assert at_hand(archive, folders[0]) is None
    unpacked = folders[2] / "unpacked" / "a.zip" / ("0" * 16)
    unpacked.mkdir(parents=True)
    assert at_hand(archive, folders[0]) == unpacked
    (folders[1] / "second").touch()
    assert at_hand(FILE, folders[0]) == folders[1] / "second"


def test_searched_places_are_tracked_until_the_block_ends(folders: list[Path]):
    """A file that appears at a place searched earlier replaces the file that was found."""
    (folders[0] / "first").touch()
    with tracked() as places:
        locate(FILE, folders[0])
    (folders[0] / "second").touch()
    locate_path("second", folders[0], "")
    assert places == {folders[0] / "folder" / "first", folders[0] / "first"}
