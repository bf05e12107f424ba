"""Users' own files: which place goes first, and what an archive leaves behind."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bench.data.files.user_files import find_any, optional, unpacked
from bench.types import DataError


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The three folders that are searched, in this order."""
    made = [tmp_path / name for name in ("root", "data", "cache")]
    for folder in made:
        folder.mkdir()
    monkeypatch.setenv("BENCH_DATA", str(made[1]))
    monkeypatch.setenv("BENCH_CACHE", str(made[2]))
    return made


def test_names_go_before_folders(folders: list[Path]):
    for folder in reversed(folders):
        (folder / "second").mkdir()
        assert find_any(["first", "second"], folders[0], "get it") == folder / "second"
    (folders[2] / "first").touch()
    assert find_any(["first", "second"], folders[0], "get it") == folders[2] / "first"


def test_the_error_names_every_place_and_the_remedy(folders: list[Path]):
    with pytest.raises(DataError) as caught:
        find_any(["first", "second"], folders[0], "get it there")
    places = ", ".join(map(str, folders))
    assert str(caught.value) == f"neither first nor second in {places}; get it there"


def test_a_folder_stands_for_itself(tmp_path: Path):
    with unpacked(tmp_path, lambda name: True) as folder:
        assert folder == tmp_path


def test_an_archive_is_unpacked_for_a_while(tmp_path: Path, folders: list[Path]):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as opened:
        opened.writestr("a/wanted", "1")
        opened.writestr("a/other", "2")
    with unpacked(tmp_path / "some.zip", lambda name: name.endswith("wanted")) as folder:
        assert [file.name for file in (folder / "a").iterdir()] == ["wanted"]
    assert list(folders[2].iterdir()) == []


def test_a_missing_library_names_the_extra():
    with pytest.raises(DataError, match=r"^this needs the library no_such_library: pip install 'silobench\[more\]'$"):
        optional("no_such_library", "more")
