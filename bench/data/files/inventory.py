"""Inventory of a data set's files on this machine, with their state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock

from bench.data.files import cache, cards, manifest
from bench.data.files.locate import at_hand, find, unpacked_folders
from bench.data.files.raw_file import RawFile
from bench.files import cache_folder


@dataclass(frozen=True)
class FileStatus:
    """The state of one file; ``detail`` says what was compared, or what is wrong and what to do."""

    file: str
    state: Literal["intact", "damaged", "absent", "unpinned"]
    detail: str


def examine(name: str, root: Path | None = None) -> Iterator[FileStatus]:
    """Yield the state of every raw file of data set ``name`` and of every file in the cache that was made from them.

    All files are read and compared with their checksums. Nothing is downloaded.
    """
    prepare = f"run `silobench data prepare {name}`"
    files = cards.read(name).files
    yield from (_raw(file, root, prepare) for file in files)
    for folder in _cached_folders(name, files):
        for file, deviation in manifest.deviations(folder, thorough=True).items():
            detail = f"{deviation}; {prepare}" if deviation else "as in its manifest"
            yield FileStatus(str(folder / file), "damaged" if deviation else "intact", detail)


def discard_damaged(name: str) -> list[Path]:
    """Delete the cached folders of data set ``name`` that hold a damaged file; return the deleted folders."""
    folders = _cached_folders(name, cards.read(name).files)
    damaged = [folder for folder in folders if any(manifest.deviations(folder, thorough=True).values())]
    for folder in damaged:
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            shutil.rmtree(folder)
    return damaged


def _raw(file: RawFile, root: Path | None, prepare: str) -> FileStatus:
    if not file.digest:
        place = at_hand(file, root)
        return FileStatus(
            str(place or " or ".join(file.names)), "unpinned" if place else "absent", "no checksum is published"
        )
    own, cached = find(file.path, root), cache_folder() / file.path
    place = own or cached
    if not place.is_file():
        other = at_hand(file, root)
        if other is None or other in unpacked_folders(file):
            return FileStatus(file.path, "absent", file.identity)
        return FileStatus(str(other), "unpinned", "no checksum is published")
    if deviation := file.deviation(place):
        return FileStatus(str(place), "damaged", f"{deviation}; {'delete it and ' if own else ''}{prepare}")
    return FileStatus(str(place), "intact", file.identity)


def _cached_folders(name: str, files: tuple[RawFile, ...]) -> list[Path]:
    """The folders with a manifest in the cache: unpacked archives and prepared arrays."""
    return [*(folder for file in files for folder in unpacked_folders(file)), *cache.folders(name)]
