"""Large data sets are decoded once: arrays in the cache that later loads map into memory without a copy."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from filelock import FileLock

from bench.data import fetch
from bench.types import DataError, content_hash

Layout = Mapping[str, tuple[tuple[int, ...], str]]  # name -> shape, type of the numbers
Arrays = dict[str, np.ndarray]


def prepared(
    name: str,
    *,
    inputs: Iterable[Path],
    code: Iterable[Path],
    layout: Layout,
    fill: Callable[[Arrays], None],
) -> Arrays:
    """The arrays of data set ``name``, mapped from the cache; the first call lets ``fill`` write them there.

    They belong to the raw files ``inputs`` (names, sizes and times of change; hashing the largest sets would take
    longer than training on them), the source files ``code`` and the ``layout``: another of these makes other arrays.
    Processes that ask at the same time prepare once, and what was not finished is not there. Changes to the returned
    arrays stay in memory. Raises :class:`DataError` for a damaged or unwritable cache.
    """
    key = {
        "inputs": [[file.name, (state := file.stat()).st_size, state.st_mtime_ns] for file in inputs],
        "code": [hashlib.sha256(file.read_bytes()).hexdigest() for file in code],
        "layout": {array: [list(shape), kind] for array, (shape, kind) in layout.items()},
    }
    folder = fetch._cache() / "prepared" / f"{name}-{content_hash(key)}"
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    _prepare(folder, layout, fill)
        except OSError as error:
            reason = f"cannot be written ({error}); set BENCH_CACHE to a folder of yours with enough room"
            raise DataError(f"{folder} {reason}") from error
    return {array: _mapped(folder, array, *layout[array]) for array in layout}


def verify(folder: Path) -> None:
    """Read all arrays of a prepared ``folder``; raises :class:`DataError` for one that is not as it was written."""
    for array, sha256 in json.loads((folder / "sha256.json").read_text()).items():
        if _sha256(folder / f"{array}.npy") != sha256:
            raise DataError(f"{folder / array}.npy has changed since it was prepared; delete the folder {folder}")


def _prepare(folder: Path, layout: Layout, fill: Callable[[Arrays], None]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {array: _created(scratch / f"{array}.npy", *layout[array]) for array in layout}
        fill(dict(arrays))
        for array in arrays.values():
            array.flush()
        sums = {array: _sha256(scratch / f"{array}.npy") for array in layout}
        with (scratch / "sha256.json").open("w") as file:
            json.dump(sums, file)
            file.flush()
            os.fsync(file.fileno())
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


def _mapped(folder: Path, array: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    file = folder / f"{array}.npy"
    try:
        mapped = np.load(file, mmap_mode="c", allow_pickle=False)  # "c": writable, as torch wants it, in memory only
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} is damaged ({error}); delete the folder {folder}") from error
    if mapped.shape != shape or mapped.dtype != np.dtype(kind):
        raise DataError(f"{file} is damaged: {mapped.shape} {mapped.dtype}, not {shape} {kind}; delete {folder}")
    return mapped


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
