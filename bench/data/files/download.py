"""Raw files, known by their hash: found where the user keeps them, or downloaded once into the cache.

Environment: ``BENCH_DATA`` is a folder of raw files, ``BENCH_CACHE`` replaces ``~/.cache/silobench``, and with
``BENCH_OFFLINE=1`` nothing opens a connection.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin

from filelock import FileLock

from bench.data.files import manifest
from bench.data.files.archive import unpack
from bench.files import cache_folder
from bench.types import DataError

TIMEOUT = 30  # seconds without a byte from the server
CHUNK = 1 << 16
LIMIT = 1 << 30  # bytes of a file whose size is not published
Watcher = Callable[[str, int, int | None], None]  # told path, bytes that are there, bytes of the whole file if known
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_noted: ContextVar[set[Path] | None] = ContextVar("noted", default=None)
_forbidden: ContextVar[str | None] = ContextVar("forbidden", default=None)


@dataclass(frozen=True)
class Asset:
    """One published file. ``path`` is its place below a data folder, ``size`` counts bytes, ``urls`` are mirrors.

    Where an address ends in .gz and ``path`` does not, the file is unpacked on the way; hash and size are those of
    the unpacked file. ``md5`` stands in where the publisher gives no SHA-256, ``size`` is None where none is known.
    """

    path: str
    sha256: str | None
    size: int | None
    urls: tuple[str, ...]
    licence: str
    md5: str | None = None

    def __post_init__(self) -> None:
        if not self.urls or not all(url.startswith("https://") for url in self.urls):
            raise DataError(f"{self.path}: an asset needs at least one address, all of them https://, not {self.urls}")
        if (self.sha256 is None) == (self.md5 is None):
            raise DataError(f"{self.path}: an asset needs either a sha256 or an md5")

    @property
    def digest(self) -> str:
        """The published hash, of whichever kind."""
        return self.sha256 or self.md5 or ""

    @property
    def identity(self) -> str:
        """Hash and size in words, as far as they are known."""
        size = "" if self.size is None else f"{self.size} bytes, "
        return size + (f"sha256 {self.sha256}" if self.sha256 else f"md5 {self.md5}")


def locate(asset: Asset, root: Path | None = None) -> Path:
    """Where the intact file of ``asset`` lies: below ``root``, ``BENCH_DATA`` or the cache; else it is downloaded.

    In a user's folder it may lie at ``asset.path`` or directly by its name. A file there that is not the published
    one is an error, never replaced by a download. Raises :class:`DataError` saying what to put where.
    """
    if place := find(asset.path, root):
        if deviation := deviates(asset, place):
            raise DataError(f"{place} is not the published file: {deviation}; {_remedy(asset, place)}")
        return place
    cached = cache_folder() / asset.path
    if cached.is_file() and not deviates(asset, cached):
        return note(cached)
    if forbidden_by := _forbidden.get() or ("BENCH_OFFLINE" if _offline() else None):
        searched = ", ".join(map(str, [*data_folders(root), cache_folder()]))
        raise DataError(
            f"{asset.path}: no intact copy in {searched}, and {forbidden_by} forbids to download it; "
            + _remedy(asset, cached)
        )
    try:
        _download(asset, cached)
    except OSError as error:
        raise DataError(f"{cached}: cannot be written ({error}); set BENCH_CACHE to a folder of yours") from error
    return note(cached)


def locate_unpacked(asset: Asset, members: Collection[str], root: Path | None = None) -> Path:
    """The folder in the cache that holds the ``members`` of the archive ``asset``, unpacked there the first time.

    Raises :class:`DataError` for a member that has changed since.
    """
    folder = unpacked_folder(asset)
    if not folder.is_dir():
        archive = locate(asset, root)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    _unpack_sealed(archive, folder, members)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written ({error}); set BENCH_CACHE to a folder of yours") from error
    manifest.check(folder, f"delete the folder {folder}")
    return note(folder)


def unpacked_folder(asset: Asset) -> Path:
    """Where in the cache members of the archive ``asset`` lie, once unpacked."""
    return cache_folder() / f"{asset.path}-{asset.digest[:16]}"


def _unpack_sealed(archive: Path, folder: Path, members: Collection[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as room:
        content = Path(room) / "content"
        unpack(archive, content, members.__contains__)
        manifest.close(content)
        content.rename(folder)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` of every piece of a download until the block ends."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def forbidden(by: str) -> Iterator[None]:
    """Download nothing until the block ends; ``by`` is what forbids it, if nothing around the block does."""
    token = _forbidden.set(_forbidden.get() or by)
    try:
        yield
    finally:
        _forbidden.reset(token)


def _offline() -> bool:
    return os.environ.get("BENCH_OFFLINE", "") not in ("", "0")


def find(path: str, root: Path | None = None) -> Path | None:
    """The user's own file for ``path``, unchecked: below ``root`` or ``BENCH_DATA``, there or directly by its name."""
    places = (place for folder in data_folders(root) for place in (folder / path, folder / Path(path).name))
    found = next((place for place in places if place.is_file()), None)
    return found and note(found)


def note(place: Path) -> Path:
    """Tell :func:`noted` that data are read from the file or folder ``place``; returns it."""
    if (places := _noted.get()) is not None:
        places.add(place.absolute())
    return place


@contextmanager
def noted() -> Iterator[set[Path]]:
    """The files and folders that are found for adapters until the block ends."""
    places: set[Path] = set()
    token = _noted.set(places)
    try:
        yield places
    finally:
        _noted.reset(token)


def data_folders(root: Path | None) -> list[Path]:
    """The user's folders, in the order in which they are searched."""
    folders = []
    for origin, given in (("root", root), ("BENCH_DATA", os.environ.get("BENCH_DATA"))):
        if given:
            folder = Path(given).expanduser()
            if not folder.is_dir():
                raise DataError(f"{origin} = {folder}: no such folder; name the one that holds the raw data files")
            folders.append(folder)
    return folders


def deviates(asset: Asset, file: Path) -> str:
    """How ``file`` differs from the published one; empty if it does not."""
    algorithm = "sha256" if asset.sha256 else "md5"
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).hexdigest()
    size = file.stat().st_size
    if digest == asset.digest and asset.size in (None, size):
        return ""
    return f"expected {asset.identity}, found {size} bytes, {algorithm} {digest}"


def _remedy(asset: Asset, place: Path) -> str:
    unpacked = ", unpacked," if _is_packed(asset, asset.urls[0]) else ""
    return f"put the file from {asset.urls[0]}{unpacked} ({asset.licence}; {asset.identity}) at {place}"


def _is_packed(asset: Asset, url: str) -> bool:
    return url.endswith(".gz") and not asset.path.endswith(".gz")


def _download(asset: Asset, target: Path) -> None:
    """Fetch into ``target`` from the first mirror that sends the published bytes; one process at a time.

    Where a connection broke, the next mirror, or the next call, continues.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{asset.digest[:16]}.part")
    failures = []
    with FileLock(target.with_name(f"{target.name}.lock")):
        if target.is_file() and not deviates(asset, target):
            return
        for url in asset.urls:
            continued = part.exists()
            failure = _attempt(asset, url, part)
            if failure and continued and not part.exists():  # what was continued did not belong to the file
                failure = _attempt(asset, url, part)
            if not failure:
                part.replace(target)
                return
            failures.append(f"{url}: {failure}")
    raise DataError(f"{asset.path}: cannot be downloaded ({'; '.join(failures)}); {_remedy(asset, target)}")


def _attempt(asset: Asset, url: str, part: Path) -> str:
    """Why ``part`` is not the whole file yet; empty if it is. It is kept where another attempt can continue it."""
    packed = _is_packed(asset, url)
    try:
        with part.open("wb" if packed else "ab") as file:
            capped = _Capped(file, asset)
            _transfer(url, capped, _Unpacking(capped) if packed else capped)
            os.fsync(file.fileno())
        if deviation := deviates(asset, part):
            raise WrongFileError(deviation)
    except OSError as error:
        # The bytes on the way are packed, those that are kept are not: a packed file cannot be continued.
        if packed or isinstance(error, WrongFileError) or not part.stat().st_size:
            part.unlink()
        return str(error)
    return ""


class WrongFileError(OSError):
    """What the server sends is not the published file."""


class _Capped:
    """The end of a file, which refuses to outgrow what is published, so that no server can fill the disk."""

    def __init__(self, file: BinaryIO, asset: Asset) -> None:
        self.file = file
        self.asset = asset
        self.size = LIMIT if asset.size is None else asset.size
        self.there = file.tell()

    def answered(self, response: Any, **_: Any) -> None:
        """Called by requests after every response, before it follows a redirect or reads on."""
        target = urljoin(response.url, response.headers.get("location", ""))
        if not target.startswith("https://"):
            raise OSError(f"redirected to {target}, which is not https")
        if response.status_code == 200:  # from the beginning, whatever was asked for
            self.file.truncate(0)
            self.there = 0
        elif response.status_code == 416 or (
            response.status_code == 206
            and not response.headers.get("content-range", "").startswith(f"bytes {self.there}-")
        ):
            raise WrongFileError(f"the server cannot continue after {self.there} bytes")

    def write(self, chunk: bytes) -> None:
        self.there += len(chunk)
        if self.there > self.size:
            raise WrongFileError(f"the server sends more than the expected {self.size} bytes")
        self.file.write(chunk)
        if watcher := _watcher.get():
            watcher(self.asset.path, self.there, self.asset.size)

    def flush(self) -> None:
        self.file.flush()


class _Unpacking:
    """Unpacks a gzip file while it is written into ``file``."""

    def __init__(self, file: _Capped) -> None:
        self.file = file
        self.stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def write(self, chunk: bytes) -> None:
        try:
            self.file.write(self.stream.decompress(chunk))
        except zlib.error as error:
            raise WrongFileError(f"the server sends no gzip file ({error})") from error

    def flush(self) -> None:
        self.file.flush()


def _transfer(url: str, capped: _Capped, file: _Capped | _Unpacking) -> None:
    """Stream ``url`` into ``file``; raises OSError (which all errors of requests are)."""
    from pooch import HTTPDownloader  # only here: it takes longer to import than most files take to load

    headers = {"Accept-Encoding": "identity"}  # a range of packed bytes would not be one of the file
    if capped.there:
        headers["Range"] = f"bytes={capped.there}-"
    download = HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=headers, hooks={"response": capped.answered})
    download(url, file, None)
