"""Reader of idx files, the format of MNIST: a header of big-endian sizes, then one byte per pixel or label."""

from __future__ import annotations

import gzip
import math
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from bench.types import DataError

SIZE = (28, 28)
MAX_ITEMS = 1_000_000  # of a file; EMNIST, the largest known set, has 814,255


def read(images: Path, labels: Path, classes: int, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 1, 28, 28) uint8 and class numbers (n,) int64 of a pair of files, which may be gzip files.

    With ``most``, only the first ``most`` items are read. Raises :class:`DataError` for a file that is not an idx file,
    is truncated or too long, or has an unknown class.
    """
    x = _items(images, SIZE, most)
    y = _items(labels, (), most).astype(np.int64)
    if len(x) != len(y):
        raise DataError(f"{labels}: has {len(y)} labels, but {images} has {len(x)} pictures; the numbers must be equal")
    bad = np.flatnonzero(y >= classes)
    if len(bad):
        raise DataError(f"{labels}, item {bad[0]}: has label {y[bad[0]]}, expected 0 to {classes - 1}")
    return x[:, None], y


def _items(file: Path, shape: tuple[int, ...], most: int | None) -> np.ndarray:
    """The first ``most`` items (n, *shape) uint8."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            return _parse(stream, str(file), shape, most)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file}: is a damaged gzip file ({error}); download it again") from error


def _parse(stream: BufferedIOBase, where: str, shape: tuple[int, ...], most: int | None) -> np.ndarray:
    magic = 0x801 + len(shape)
    header = stream.read(8 + 4 * len(shape))
    if len(header) < 8 + 4 * len(shape) or int.from_bytes(header[:4], "big") != magic:
        kind = "pictures" if shape else "labels"
        raise DataError(f"{where}: is not an idx file of {kind}, expected it to begin with {magic}; download it again")
    count, *found = np.frombuffer(header, dtype=">u4").tolist()[1:]
    if tuple(found) != shape or count > MAX_ITEMS:
        raise DataError(
            f"{where}: states {count} items of shape {tuple(found)}, expected {shape} and at most {MAX_ITEMS}"
        )
    wanted = count if most is None else min(count, most)
    size = math.prod(shape)
    content = stream.read(wanted * size)
    if len(content) < wanted * size or (wanted == count and stream.read(1)):
        fault = "ends too early" if len(content) < wanted * size else "has bytes after the last item"
        raise DataError(f"{where}: {fault}, expected {count} items of {size} bytes; download it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(wanted, *shape)
