"""Search for raw files in the user's folders and the cache, and download what is missing.

The environment variable ``BENCH_DATA`` names a folder of raw files. With ``BENCH_OFFLINE=1`` nothing is downloaded.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench.data.files import manifest
from bench.data.files.archive import unpack
from bench.data.files.download import download
from bench.data.files.raw_file import RawFile
from bench.files import cache_folder, expanded
from bench.types import DataError

_tracked: ContextVar[set[Path] | None] = ContextVar("tracked", default=None)
_forbidden: ContextVar[str | None] = ContextVar("forbidden", default=None)


def locate(file: RawFile, root: Path | None = None) -> Path:
    """Return the place of ``file`` below ``root``, ``BENCH_DATA`` or the cache; download it if it is in none of them.

    In the user's folders the file may be at ``file.path`` or directly in the folder. A file there is never replaced:
    :class:`DataError` is raised if its checksum is not the published one. A file without a checksum may also be at one
    of its alternatives. Raises :class:`DataError` for a missing file, saying how to get it.
    """
    if not file.digest:
        return _locate_unchecked(file, root)
    if place := find(file.path, root):
        if deviation := file.deviation(place):
            raise DataError(f"{place}: is not the published file: {deviation}; {file.remedy(place)}")
        return place
    cached = cache_folder() / file.path
    if cached.is_file() and not file.deviation(cached):
        return track(cached)
    searched = ", ".join(map(str, [*data_folders(root), cache_folder()]))
    if not file.urls:
        raise DataError(f"{file.path}: not found in {searched}; {file.remedy(cached)}")
    if reason := _forbidden.get() or ("BENCH_OFFLINE" if _offline() else None):
        raise DataError(f"{file.path}: not found in {searched}, and {reason} forbids downloads; {file.remedy(cached)}")
    try:
        download(file, cached)
    except OSError as error:
        raise DataError(f"{cached}: cannot be written ({error}); set BENCH_CACHE to a folder of yours") from error
    return track(cached)


def _locate_unchecked(file: RawFile, root: Path | None) -> Path:
    folders = [*data_folders(root), cache_folder()]
    for name in file.names:
        if place := next(_places([name], folders), None):
            return place
    raise DataError(f"{' or '.join(file.names)}: not found in {', '.join(map(str, folders))}; {file.obtain}")


def locate_path(path: str, root: Path | None, remedy: str) -> Path:
    """Return the file or folder at exactly ``path`` below ``root``, ``BENCH_DATA`` or the cache.

    Raises :class:`DataError` that ends with the ``remedy`` if it is in none of them.
    """
    folders = [*data_folders(root), cache_folder()]
    for folder in folders:
        if track(folder / path).exists():
            return folder / path
    raise DataError(f"{path}: not found in {', '.join(map(str, folders))}; {remedy}")


def locate_unpacked(file: RawFile, members: Collection[str], root: Path | None = None) -> Path:
    """Return the folder in the cache with the ``members`` of the archive ``file``, unpacked by the first call.

    Raises :class:`DataError` if a member was changed after that.
    """
    question = {"archive": file.path, "checksum": file.digest, "members": sorted(members)}
    folder = manifest.place(_unpacked(file), question)
    if not folder.is_dir():
        archive = locate(file, root)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    _unpack_with_manifest(archive, folder, question, members)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written ({error}); set BENCH_CACHE to a folder of yours") from error
    manifest.check(folder, f"delete the folder {folder}")
    return track(folder)


def unpacked_folders(file: RawFile) -> list[Path]:
    """Return the folders in the cache with unpacked members of the archive ``file``."""
    return manifest.folders(_unpacked(file))


def _unpacked(file: RawFile) -> Path:
    return cache_folder() / "unpacked" / file.path


def _unpack_with_manifest(archive: Path, folder: Path, question: Mapping[str, Any], members: Collection[str]) -> None:
    folder.unlink(missing_ok=True)  # a file in its place
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as room:
        content = Path(room) / "content"
        unpack(archive, content, members.__contains__)
        manifest.write(content, question)
        content.rename(folder)


def find(path: str, root: Path | None = None) -> Path | None:
    """Return the user's own file for ``path``, unchecked: below ``root`` or ``BENCH_DATA``, at the path or by name."""
    return next((place for place in _places([path], data_folders(root)) if place.is_file()), None)


def at_hand(file: RawFile, root: Path | None = None) -> Path | None:
    """Return where ``file``, an alternative or its unpacked members are, without checking them; None if nowhere."""
    cached = [*(cache_folder() / name for name in file.names), *unpacked_folders(file)]
    own = _places(file.names, data_folders(root))
    return next((place for place in (*own, *cached) if place.exists()), None)


def _places(names: Iterable[str], folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the existing places of a file in ``folders``, at its path or directly in the folder; track all others."""
    places = (folder / spelling for folder in folders for name in names for spelling in (name, Path(name).name))
    return (place for place in places if track(place).exists())


def data_folders(root: Path | None) -> list[Path]:
    """Return the user's folders in the order in which they are searched; raise :class:`DataError` if one is missing."""
    folders = []
    for origin, given in (("root", root), ("BENCH_DATA", os.environ.get("BENCH_DATA"))):
        if given:
            folder = expanded(origin, str(given), "name the folder of the raw data files")
            if not folder.is_dir():
                raise DataError(f"{origin} = {folder}: there is no such folder; name the folder of the raw data files")
            folders.append(folder)
    return folders


def track(place: Path) -> Path:
    """Add ``place`` to the set of the surrounding :func:`tracked` block, if there is one; return ``place``."""
    if (places := _tracked.get()) is not None:
        places.add(place.absolute())
    return place


@contextmanager
def tracked() -> Iterator[set[Path]]:
    """Collect the places where files of data sets are searched until the block ends, also those without a file."""
    places: set[Path] = set()
    token = _tracked.set(places)
    try:
        yield places
    finally:
        _tracked.reset(token)


@contextmanager
def downloads_forbidden(reason: str) -> Iterator[None]:
    """Forbid downloads until the block ends; messages give the ``reason`` of the outermost block."""
    token = _forbidden.set(_forbidden.get() or reason)
    try:
        yield
    finally:
        _forbidden.reset(token)


def _offline() -> bool:
    return os.environ.get("BENCH_OFFLINE", "") not in ("", "0")
