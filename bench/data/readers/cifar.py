"""CIFAR-10's binary files: rows of one label byte and 3072 bytes, the red, green and blue plane of 32 x 32 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.types import DataError

SHAPE = (3, 32, 32)
ROW = 1 + 3072
CLASSES = 10
MOST = 10_000  # rows of a file


def read(files: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 3, 32, 32) uint8 and class numbers (n,) int64 of the rows of ``files``, one file after the other.

    Raises :class:`DataError` naming the file that is cut off or too long, or the row with another class.
    """
    rows = np.concatenate([_rows(file) for file in files])
    return rows[:, 1:].reshape(len(rows), *SHAPE), rows[:, 0].astype(np.int64)


def _rows(file: Path) -> np.ndarray:
    size = file.stat().st_size
    if not size or size % ROW or size > MOST * ROW:
        raise DataError(f"{file} has {size} bytes, expected 1 to {MOST} rows of {ROW} bytes; download it again")
    rows = np.fromfile(file, dtype=np.uint8).reshape(-1, ROW)
    bad = np.flatnonzero(rows[:, 0] >= CLASSES)
    if len(bad):
        raise DataError(f"{file}, row {bad[0]}: label {rows[bad[0], 0]}, expected 0 to {CLASSES - 1}")
    return rows
