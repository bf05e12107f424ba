"""Safe unpacking of zip and tar archives: no entry may be written outside the target folder.

The standard library's ``extractall`` is not used: it keeps links, trusts the sizes that an archive states and, for tar
files before Python 3.12, writes to any path that an entry names.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from bench.files import cache_folder
from bench.types import DataError

MAX_ENTRIES = 200_000
MAX_EXPANSION = 100  # bytes unpacked per byte of the archive; photographs and volumes have about 1, tables up to 20
ALWAYS_ALLOWED = 1 << 20  # bytes that any archive may unpack to
CHUNK = 1 << 16  # bytes
MAX_END_RECORD = 22 + 0xFFFF  # bytes of the record at the end of a zip file, with a comment
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, NotImplementedError, OverflowError),
)
_OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
Entry = tuple[str, int, BinaryIO | IO[bytes]]  # name, claimed size, content


def unpack(archive: Path, folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> None:
    """Unpack the ``wanted`` files of a zip or (compressed) tar ``archive`` into ``folder``, which must not exist yet.

    Every entry is checked, also the others. Raises :class:`DataError` and leaves nothing behind if an entry is
    absolute, contains "..", is a link, a device or encrypted, occurs twice, or has another size than stated, and if
    there are more than MAX_ENTRIES entries or more than MAX_EXPANSION bytes per byte of the archive.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        extract(archive, scratch, wanted)
        for file in scratch.rglob("*"):
            if file.is_file():
                _sync(file)
        scratch.chmod(0o755)  # temporary folders are private, a cache may be shared
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def extract(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> None:
    """Unpack as :func:`unpack` does into an existing empty ``folder``; after an error it holds what was written."""
    limit = archive.stat().st_size * MAX_EXPANSION + ALWAYS_ALLOWED
    seen: set[str] = set()
    total = 0
    try:
        for name, size, content in _entries(archive, limit):
            where = f"{archive}: entry {name!r}"
            path = _path(where, name)
            total += size
            if total > limit:
                raise _too_large(archive, limit)
            if path in seen:
                raise DataError(f"{where} occurs twice; do not use this archive")
            seen.add(path)
            if wanted(name):
                _write(where, folder / path, content, size)
    except _DAMAGE as error:
        raise DataError(f"{archive}: is damaged ({error}); download it again") from error
    except OSError as error:
        # Decompressors raise OSErrors without a number; those of the operating system have one.
        if error.errno is None:
            raise DataError(f"{archive}: is damaged ({error}); download it again") from error
        raise DataError(f"{archive}: cannot be unpacked in {folder.parent} ({error})") from error


@contextmanager
def unpacked_temporarily(source: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Yield ``source`` if it is a folder; else a folder with the ``wanted`` files of the archive ``source``.

    The folder is in the cache and is deleted at the end of the block.
    """
    if source.is_dir():
        yield source
        return
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=cache) as folder:
        extract(source, Path(folder), wanted)
        yield Path(folder)


def _entries(archive: Path, limit: int) -> Iterator[Entry]:
    """The files of an archive without its folders; the content tells the kind of archive."""
    with archive.open("rb") as file:
        head = file.read(6)
    if zipfile.is_zipfile(archive):
        yield from _zip_entries(archive)
        return
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    with (opener or Path.open)(archive, "rb") as stream:  # type: ignore[operator]
        limited = _LimitedReader(stream, limit, archive)
        yield from _tar_entries(archive, limited)
        # Read to the end: the checksum of the compression comes after the end of the tar file.
        while limited.read(CHUNK):
            pass


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as opened:
        listed = opened.infolist()
        stated = _stated_entries(archive)
        if stated not in (None, len(listed)):  # zipfile does not compare them
            raise DataError(f"{archive}: is damaged (lists {len(listed)} of {stated} entries); download it again")
        if len(listed) > MAX_ENTRIES:
            raise DataError(f"{archive}: has {len(listed)} entries, expected at most {MAX_ENTRIES}; do not use it")
        for entry in listed:
            mode = entry.external_attr >> 16
            kind = stat.S_IFMT(mode)
            if entry.flag_bits & 1 or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise DataError(f"{archive}: entry {entry.filename!r} is a link, a device or encrypted; do not use it")
            if entry.is_dir():
                _path(f"{archive}: entry {entry.filename!r}", entry.filename)
                continue
            with opened.open(entry) as content:
                yield entry.filename, entry.file_size, content


def _stated_entries(archive: Path) -> int | None:
    """The number of entries in the end record of a zip file; None in the zip64 format, which has another record."""
    with archive.open("rb") as file:
        file.seek(max(0, archive.stat().st_size - MAX_END_RECORD))
        tail = file.read()
    record = tail.rfind(b"PK\x05\x06")
    stated = int.from_bytes(tail[record + 10 : record + 12], "little")
    return None if stated == 0xFFFF else stated


def _tar_entries(archive: Path, stream: _LimitedReader) -> Iterator[Entry]:
    with tarfile.open(fileobj=stream, mode="r|") as opened:  # type: ignore[call-overload]
        for number, entry in enumerate(opened, start=1):
            if number > MAX_ENTRIES:
                raise DataError(f"{archive}: has more than {MAX_ENTRIES} entries; do not use it")
            if entry.isdir():
                _path(f"{archive}: entry {entry.name!r}", entry.name)
            elif not entry.isfile() or entry.issparse():
                raise DataError(f"{archive}: entry {entry.name!r} is a link or a device; do not use it")
            else:
                content = opened.extractfile(entry)
                assert content is not None
                yield entry.name, entry.size, content


class _LimitedReader:
    """A stream that refuses to read more than ``limit`` bytes: headers of a tar file may also be very large."""

    def __init__(self, stream: IO[bytes], limit: int, archive: Path) -> None:
        self.stream, self.remaining, self.archive, self.limit = stream, limit, archive, limit

    def read(self, size: int) -> bytes:
        chunk = self.stream.read(min(size, self.remaining + 1))
        self.remaining -= len(chunk)
        if self.remaining < 0:
            raise _too_large(self.archive, self.limit)
        return chunk


def _too_large(archive: Path, limit: int) -> DataError:
    return DataError(f"{archive}: unpacks to more than {limit} bytes; do not use it")


def _path(where: str, name: str) -> str:
    """The relative path of an entry, equal on every system; refuses names that lead out of the folder."""
    plain = PurePosixPath(name)
    odd = "\\" in name or "\0" in name or ":" in name
    if not plain.parts or odd or plain.is_absolute() or ".." in plain.parts:
        raise DataError(f"{where} leads outside the folder it is unpacked into; do not use this archive")
    return plain.as_posix()


def _write(where: str, target: Path, content: BinaryIO | IO[bytes], size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(content, file)
        if file.tell() != size:
            raise DataError(f"{where} has {file.tell()} bytes, expected {size}; download the archive again")


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
