"""Cache of decoded arrays, which later loads map into memory without copying them."""

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
    """Return the arrays of data set ``name``, mapped from the cache; the first call lets ``fill`` write them there.

    The cache entry depends on the content of the raw files ``inputs`` and of the source files ``code``, and on the
    ``layout``. If several processes ask at the same time, one of them prepares the arrays. Unfinished arrays are never
    visible. Changes to the returned arrays stay in memory. Raises :class:`DataError` for a damaged or unwritable cache.
    """
    key = {
        "inputs": _inputs_hash(list(inputs)),
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
            raise DataError(
                f"{folder}: cannot be written ({error}); set BENCH_CACHE to a folder of yours with enough space"
            ) from error
    manifest.check(folder, f"run `silobench data prepare {name}` to prepare it again")
    # Mode "c": torch needs writable arrays; changes stay in memory.
    return {array: np.load(folder / f"{array}.npy", mmap_mode="c", allow_pickle=False) for array in layout}


def remembered(read: Callable[..., Read], *files: Path) -> Read:
    """Return ``read(*files)``, called once per process unless a file changes.

    Studies that split the same small files with every seed would otherwise spend their time on reading. All callers
    share the result and must not change it.
    """
    return cast(Read, _remembered(read, files, tuple(map(manifest.stamp, files))))


@lru_cache(maxsize=8)
def _remembered(read: Callable[..., object], files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> object:
    return read(*files)


def folders(name: str) -> list[Path]:
    """Return the folders of all cached arrays of data set ``name``."""
    places = (cache_folder() / "prepared").glob(f"{name}-{'[0-9a-f]' * 16}")
    return sorted(place for place in places if place.is_dir())


def _inputs_hash(files: Sequence[Path]) -> str:
    """SHA-256 over names and contents of ``files``, cached until a file changes: large files take long to read."""
    stamps = [manifest.stamp(file) for file in files]
    state = {"files": [[str(file.absolute()), *mark] for file, mark in zip(files, stamps, strict=True)]}
    memory = cache_folder() / "inputs" / content_hash(state)
    if memory.is_file() and memory.stat().st_mtime_ns - manifest.CLOCK_STEP > max(time for _, time in stamps):
        return memory.read_text()
    names_and_sums = json.dumps([[file.name, manifest.sha256(file)] for file in files])
    digest = hashlib.sha256(names_and_sums.encode()).hexdigest()
    with suppress(OSError):  # the user may not be allowed to write to a shared cache
        write_whole(memory, digest.encode())
    return digest


def _prepare(folder: Path, layout: Layout, fill: Callable[[Arrays], None]) -> None:
    for abandoned in folder.parent.glob(f".{folder.name}.*"):  # by a killed process: this one holds the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {array: _created(scratch / f"{array}.npy", *layout[array]) for array in layout}
        fill(dict(arrays))
        for array in arrays.values():
            array.flush()
        manifest.write(scratch)
        scratch.chmod(0o755)  # temporary folders are private, a cache may be shared
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _created(file: Path, shape: tuple[int, ...], kind: str) -> np.memmap:
    array = np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)
    # If the disk is full, writing to a mapped page kills the process; reserving the space first raises an error.
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with file.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
