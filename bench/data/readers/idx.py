"""The idx files of MNIST and its relatives: a header of big-endian sizes, then one byte per pixel or label."""

from __future__ import annotations

import gzip
import math
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from bench.types import DataError

SIZE = (28, 28)
MOST = 1_000_000  # items of the largest set, EMNIST, with room to spare


def read(images: Path, labels: Path, classes: int, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 1, 28, 28) uint8 and class numbers (n,) int64 of a pair of files, which may be gzip files.

    ``most`` is how many items are wanted from the front; what lies behind is not looked at. Raises
    :class:`DataError` naming the file that is no idx file, is cut off or too long, or holds another class.
    """
    x = _items(images, SIZE, most)
    y = _items(labels, (), most).astype(np.int64)
    if len(x) != len(y):
        raise DataError(f"{labels}: {len(y)} labels, but {images} has {len(x)} pictures; they must be as many")
    bad = np.flatnonzero(y >= classes)
    if len(bad):
        raise DataError(f"{labels}: item {bad[0]} has label {y[bad[0]]}, expected 0 to {classes - 1}")
    return x[:, None], y


def _items(file: Path, shape: tuple[int, ...], most: int | None) -> np.ndarray:
    """The first ``most`` items (n, *shape) uint8."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            return _parse(stream, str(file), shape, most)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} is a damaged gzip file ({error}); download it again") from error


def _parse(stream: BufferedIOBase, where: str, shape: tuple[int, ...], most: int | None) -> np.ndarray:
    magic = 0x801 + len(shape)
    header = stream.read(8 + 4 * len(shape))
    if len(header) < 8 + 4 * len(shape) or int.from_bytes(header[:4], "big") != magic:
        kind = "pictures" if shape else "labels"
        raise DataError(f"{where} is no idx file of {kind}: it must begin with the number {magic}; download it again")
    count, *found = np.frombuffer(header, dtype=">u4").tolist()[1:]
    if tuple(found) != shape or count > MOST:
        raise DataError(f"{where} announces {count} items of shape {tuple(found)}, expected {shape} and at most {MOST}")
    wanted = count if most is None else min(count, most)
    size = math.prod(shape)
    content = stream.read(wanted * size)
    if len(content) < wanted * size or (wanted == count and stream.read(1)):
        fault = "ends too early" if len(content) < wanted * size else "goes on after the last item"
        raise DataError(f"{where} {fault}: it announces {count} items of {size} bytes; download it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(wanted, *shape)
