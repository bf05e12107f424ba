"""Reader of CIFAR-10's binary files.

Each row has one label byte and 3072 bytes: the red, green and blue plane of 32 x 32 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.types import DataError

SHAPE = (3, 32, 32)
ROW = 1 + 3072
CLASSES = 10
MAX_ROWS = 10_000  # of a file


def read(files: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 3, 32, 32) uint8 and class numbers (n,) int64 of all rows of ``files``.

    Raises :class:`DataError` for a truncated or too long file and for an unknown class, with file and row.
    """
    rows = np.concatenate([_rows(file) for file in files])
    return rows[:, 1:].reshape(len(rows), *SHAPE), rows[:, 0].astype(np.int64)


def _rows(file: Path) -> np.ndarray:
    size = file.stat().st_size
    if not size or size % ROW or size > MAX_ROWS * ROW:
        raise DataError(f"{file}: has {size} bytes, expected 1 to {MAX_ROWS} rows of {ROW} bytes; download it again")
    rows = np.fromfile(file, dtype=np.uint8).reshape(-1, ROW)
    bad = np.flatnonzero(rows[:, 0] >= CLASSES)
    if len(bad):
        raise DataError(f"{file}, row {bad[0]}: label {rows[bad[0], 0]}, expected 0 to {CLASSES - 1}")
    return rows
