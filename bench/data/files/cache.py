"""Cache of decoded arrays, which later loads map into memory without copying them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from filelock import FileLock

from bench.data.files import manifest
from bench.data.files.hashes import Stamp, combined, sha256, stamp
from bench.data.files.libraries import DECODERS, versions
from bench.files import cache_folder, digest
from bench.types import DataError

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
    options: Mapping[str, Any] | None = None,
) -> Arrays:
    """Return the arrays of data set ``name``, mapped from the cache; the first call lets ``fill`` write them there.

    The cache entry depends on the content of the raw files ``inputs``, on the source files ``code`` (the caller's and
    those of the readers that it calls), on the ``layout``, on the versions of the decoding libraries, and on
    ``options``: all other values that ``fill`` uses, as JSON. If several processes ask at the same time, one of them
    prepares the arrays. Unfinished arrays are never visible. Changes to the returned arrays stay in memory. Raises
    :class:`DataError` for a damaged or unwritable cache.
    """
    files = list(inputs)
    question = {
        "data set": name,
        "inputs": [combined(files), digest([file.name for file in files])],
        "code": [sha256(file) for file in code],
        "layout": {array: [list(shape), kind] for array, (shape, kind) in layout.items()},
        "options": options or {},
        "versions": versions(DECODERS),
    }
    folder = manifest.place(_prepared(name), question)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    _prepare(folder, question, layout, fill)
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
    return cast(Read, _remembered(read, files, tuple(map(stamp, files))))


@lru_cache(maxsize=8)
def _remembered(read: Callable[..., object], files: tuple[Path, ...], stamps: tuple[Stamp, ...]) -> object:
    return read(*files)


def folders(name: str) -> list[Path]:
    """Return the folders of all cached arrays of data set ``name``."""
    return manifest.folders(_prepared(name))


def _prepared(name: str) -> Path:
    return cache_folder() / "prepared" / name


def _prepare(folder: Path, question: Mapping[str, Any], layout: Layout, fill: Callable[[Arrays], None]) -> None:
    folder.unlink(missing_ok=True)  # a file in its place
    for abandoned in folder.parent.glob(f".{folder.name}.*"):  # by a killed process: this one holds the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {array: _created(scratch / f"{array}.npy", *layout[array]) for array in layout}
        fill(dict(arrays))
        for array in arrays.values():
            array.flush()
        manifest.write(scratch, question)
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
