"""Unpacking of archives: hostile and damaged ones are refused in one line and leave no files."""

from __future__ import annotations

import io
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.data.files import archive
from bench.data.files.archive import unpack, unpacked_temporarily
from bench.types import DataError

FILES = {"a/one.txt": b"one", "a/b/two.bin": bytes(range(256)) * 40, "empty": b""}


def zipped(path: Path, files: dict[str, bytes], change: Callable[[zipfile.ZipInfo], None] = lambda info: None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            change(info)
            opened.writestr(info, content)
    return path


def tarred(path: Path, *entries: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    mode: Any = "w:" + path.name.partition(".tar")[2].strip(".")
    with tarfile.open(path, mode) as opened:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                opened.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                opened.addfile(info, io.BytesIO(entry[1]))
    return path


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def content(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def make(path: Path, files: dict[str, bytes]) -> Path:
    return zipped(path, files) if path.suffix == ".zip" else tarred(path, *files.items())


KINDS = ["good.zip", "good.tar", "good.tar.gz", "good.tar.bz2", "good.tar.xz"]


@pytest.mark.parametrize("kind", KINDS)
def test_correct_archives_are_unpacked(tmp_path: Path, kind: str):
    unpack(make(tmp_path / kind, FILES), tmp_path / "out")
    assert content(tmp_path / "out") == FILES


@pytest.mark.parametrize("kind", KINDS)
def test_only_wanted_files_are_written(tmp_path: Path, kind: str):
    unpack(make(tmp_path / kind, FILES), tmp_path / "out", lambda name: name.endswith(".bin"))
    assert content(tmp_path / "out") == {"a/b/two.bin": FILES["a/b/two.bin"]}


EVIL_NAMES = ["../evil", "a/../../evil", "/evil", "//evil", "C:/evil", "..\\evil", "a\\b", "."]


@pytest.mark.parametrize("name", EVIL_NAMES)
@pytest.mark.parametrize("kind", ["evil.zip", "evil.tar.gz"])
def test_names_that_lead_out_of_the_folder(tmp_path: Path, kind: str, name: str):
    refused(tmp_path, make(tmp_path / kind, {"good": b"1", name: b"2"}), "leads outside the folder")


def refused(tmp_path: Path, path: Path, message: str) -> None:
    before = content(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        unpack(path, tmp_path / "deep" / "out")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert content(tmp_path) == before
    assert list((tmp_path / "deep").iterdir()) == []


@pytest.mark.parametrize(
    "entry",
    [
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("link", tarfile.LNKTYPE, "good"),
        special("device", tarfile.CHRTYPE),
        special("device", tarfile.BLKTYPE),
        special("pipe", tarfile.FIFOTYPE),
    ],
    ids=["symbolic link", "hard link", "character device", "block device", "pipe"],
)
def test_tar_entries_that_are_not_files(tmp_path: Path, entry: tarfile.TarInfo):
    refused(tmp_path, tarred(tmp_path / "evil.tar", ("good", b"1"), entry), "is a link or a device")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_zip_entries_that_are_no_files(tmp_path: Path, kind: int):
    def change(info: zipfile.ZipInfo) -> None:
        info.external_attr = (kind | 0o777) << 16

    refused(
        tmp_path, zipped(tmp_path / "evil.zip", {"link": b"/etc/passwd"}, change), "is a link, a device or encrypted"
    )


def test_encrypted_zip(tmp_path: Path):
    path = zipped(tmp_path / "evil.zip", {"secret": b"1"})
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    refused(tmp_path, path, "is a link, a device or encrypted")


@pytest.mark.parametrize("kind", ["bomb.zip", "bomb.tar.gz"])
def test_bombs(tmp_path: Path, kind: str):
    path = make(tmp_path / kind, {"zeros": bytes(200_000_000)})
    assert path.stat().st_size < 250_000
    refused(tmp_path, path, "unpacks to more than .* bytes")


@pytest.mark.parametrize("kind", ["many.zip", "many.tar"])
def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr(archive, "MAX_ENTRIES", 99)
    refused(
        tmp_path,
        make(tmp_path / kind, {f"file{number}": b"" for number in range(100)}),
        "than 99 entries|at most 99",
    )


def test_a_name_that_occurs_twice(tmp_path: Path):
    refused(tmp_path, tarred(tmp_path / "evil.tar", ("a", b"1"), ("./a", b"2")), "'a' occurs twice|'./a' occurs twice")


def test_a_file_that_is_a_folder_too(tmp_path: Path):
    refused(tmp_path, tarred(tmp_path / "evil.tar", ("a", b"1"), ("a/b", b"2")), "cannot be unpacked")


def test_a_size_that_lies(tmp_path: Path):
    path = zipped(tmp_path / "evil.zip", {"file": b"content"})
    raw = path.read_bytes()
    path.write_bytes(raw.replace((7).to_bytes(4, "little"), (3).to_bytes(4, "little")))
    refused(tmp_path, path, "damaged")


def test_what_is_no_archive(tmp_path: Path):
    page = tmp_path / "page.zip"
    page.write_text("<html>please log in</html>")
    refused(tmp_path, page, "damaged")


@pytest.mark.parametrize("kind", ["good.zip", "good.tar.gz"])
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_archives_are_unpacked_correctly_or_not_at_all(tmp_path: Path, kind: str, data: st.DataObject):
    """An archive with a changed byte or without its end is refused, or its files are unpacked correctly."""
    raw = bytearray(make(tmp_path / kind, FILES).read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[place] ^= data.draw(st.integers(1, 255))
    else:
        del raw[place:]
    damaged, out = tmp_path / "damaged", tmp_path / "room" / f"out{len(list(tmp_path.glob('room/*')))}"
    damaged.write_bytes(raw)
    try:
        unpack(damaged, out)
        found = sorted(content(out).values())
    except DataError:
        found = None
    assert out.exists() == (found is not None)
    assert found in (None, sorted(FILES.values()))


def test_a_damaged_directory_that_hides_entries_is_refused(tmp_path: Path):
    """The length of an entry's comment is changed, so that the comment covers the entries that follow."""
    raw = bytearray(make(tmp_path / "good.zip", FILES).read_bytes())
    comment = raw.index(b"PK\x01\x02") + 32
    raw[comment : comment + 2] = (200).to_bytes(2, "little")
    (tmp_path / "damaged.zip").write_bytes(raw)
    refused(tmp_path, tmp_path / "damaged.zip", r"is damaged \(lists 1 of 3 entries\); download it again")


def test_a_folder_is_used_as_it_is(tmp_path: Path):
    with unpacked_temporarily(tmp_path, lambda name: True) as folder:
        assert folder == tmp_path


def test_an_archive_is_unpacked_into_the_cache_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as opened:
        opened.writestr("a/wanted", "1")
        opened.writestr("a/other", "2")
    with unpacked_temporarily(tmp_path / "some.zip", lambda name: name.endswith("wanted")) as folder:
        assert [file.name for file in (folder / "a").iterdir()] == ["wanted"]
    assert list((tmp_path / "cache").iterdir()) == []
