"""Large data sets are decoded once: arrays in the cache that later loads map into memory without a copy."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from filelock import FileLock

from bench.data.files import manifest
from bench.files import cache_folder, write_whole
from bench.types import DataError, content_hash

Layout = Mapping[str, tuple[tuple[int, ...], str]]  # name -> shape, type of the numbers
Arrays = dict[str, np.ndarray]
Read = TypeVar("Read")


def prepared(
    name: str,
    *,
    inputs: Iterable[Path],
    code: Iterable[Path],
    layout: Layout,
    fill: Callable[[Arrays], None],
) -> Arrays:
    """The arrays of data set ``name``, mapped from the cache; the first call lets ``fill`` write them there.

    They belong to the content of the raw files ``inputs``, of the source files ``code``, and to the ``layout``:
    another of these makes other arrays. Processes that ask at the same time prepare once, and what was not finished
    is not there. Changes to the returned arrays stay in memory. Raises :class:`DataError` for a damaged or unwritable
    cache.
    """
    key = {
        "inputs": _content(list(inputs)),
        "code": [manifest.sha256(file) for file in code],
        "layout": {array: [list(shape), kind] for array, (shape, kind) in layout.items()},
    }
    folder = cache_folder() / "prepared" / f"{name}-{content_hash(key)}"
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    _prepare(folder, layout, fill)
        except OSError as error:
            reason = f"cannot be written ({error}); set BENCH_CACHE to a folder of yours with enough room"
            raise DataError(f"{folder} {reason}") from error
    manifest.check(folder, f"`silobench data prepare {name}` makes it anew")
    # "c": writable, as torch wants it, in memory only
    return {array: np.load(folder / f"{array}.npy", mmap_mode="c", allow_pickle=False) for array in layout}


def remembered(read: Callable[..., Read], *files: Path) -> Read:
    """What ``read(*files)`` returns, read once in a process for as long as nobody changes the files.

    A study that splits small files anew for every seed would otherwise spend its time on reading them. The result is
    shared between all who ask: change it nowhere.
    """
    return cast(Read, _remembered(read, files, tuple(map(manifest.stamp, files))))


@lru_cache(maxsize=8)
def _remembered(read: Callable[..., object], files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> object:
    return read(*files)


def folders(name: str) -> list[Path]:
    """Where arrays of data set ``name`` lie, of whatever inputs and code."""
    places = (cache_folder() / "prepared").glob(f"{name}-{'[0-9a-f]' * 16}")
    return sorted(place for place in places if place.is_dir())


def _content(files: Sequence[Path]) -> str:
    """SHA-256 over names and content of ``files``, remembered for as long as nobody changes them.

    Reading the largest raw files takes longer than training on what is made of them.
    """
    stamps = [manifest.stamp(file) for file in files]
    state = {"files": [[str(file.absolute()), *mark] for file, mark in zip(files, stamps, strict=True)]}
    memory = cache_folder() / "inputs" / content_hash(state)
    if memory.is_file() and memory.stat().st_mtime_ns - manifest.TICK > max(time for _, time in stamps):
        return memory.read_text()
    names_and_sums = json.dumps([[file.name, manifest.sha256(file)] for file in files])
    digest = hashlib.sha256(names_and_sums.encode()).hexdigest()
    with suppress(OSError):  # a cache that only others may write to
        write_whole(memory, digest.encode())
    return digest


def _prepare(folder: Path, layout: Layout, fill: Callable[[Arrays], None]) -> None:
    for abandoned in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed: we hold the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {array: _created(scratch / f"{array}.npy", *layout[array]) for array in layout}
        fill(dict(arrays))
        for array in arrays.values():
            array.flush()
        manifest.close(scratch)
        scratch.chmod(0o755)  # temporary folders are for their maker's eyes only, a cache may be shared
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _created(file: Path, shape: tuple[int, ...], kind: str) -> np.memmap:
    array = np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)
    # Writing to a mapped page that has no room on the disk kills the process; asking for the room first does not.
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with file.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
