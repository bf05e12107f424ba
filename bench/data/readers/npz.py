"""Reader of MedMNIST's npz files, without pickle.

A file has pictures and labels of a training, a validation and a test part.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.data.files import cache
from bench.types import DataError

SIZE = (28, 28)
PARTS = ("train", "val", "test")
MAX_BYTES = 1 << 30  # of one array
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, OSError, EOFError),
    *(NotImplementedError, RuntimeError, SyntaxError, TypeError, ValueError),
)


def medmnist(name: str, file: Path, channels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays of :func:`read_medmnist`, kept in the cache under the ``name`` of the data set."""
    with _opened(file) as archive:
        count = sum(len(_array(archive, f"{part}_labels", file, (1,))) for part in PARTS)

    def fill(arrays: cache.Arrays) -> None:
        arrays["x"][:], arrays["y"][:] = read_medmnist(file, channels, classes)

    layout = {"x": ((count, channels, *SIZE), "uint8"), "y": ((count,), "int64")}
    arrays = cache.prepared(name, inputs=[file], code=[Path(__file__)], layout=layout, fill=fill)
    return arrays["x"], arrays["y"]


def read_medmnist(file: Path, channels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, channels, 28, 28) uint8 and class numbers (n,) int64: training, validation, then test part.

    Raises :class:`DataError` for an array that is missing, damaged, or of another shape or type.
    """
    colours = () if channels == 1 else (channels,)
    images, labels = [], []
    with _opened(file) as archive:
        for part in PARTS:
            images.append(_array(archive, f"{part}_images", file, (*SIZE, *colours)))
            labels.append(_array(archive, f"{part}_labels", file, (1,)))
            if len(images[-1]) != len(labels[-1]):
                counts = f"{len(images[-1])} pictures and {len(labels[-1])} labels"
                raise DataError(f"{file}: part {part} has {counts}; the numbers must be equal")
    x = np.ascontiguousarray(np.concatenate(images).reshape(-1, *SIZE, channels).transpose(0, 3, 1, 2))
    y = np.concatenate(labels)[:, 0].astype(np.int64)
    bad = np.flatnonzero(y >= classes)
    if len(bad):
        raise DataError(f"{file}, picture {bad[0]} of all parts: has label {y[bad[0]]}, expected 0 to {classes - 1}")
    return x, y


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        raise DataError(f"{file}: is not an intact npz file ({error}); download it again") from error


def _array(archive: zipfile.ZipFile, name: str, file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The array ``name`` (n, *shape) uint8; its header is checked before memory is allocated."""
    try:
        entry = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DataError(f"{file}: has no array {name}; expected images and labels of {', '.join(PARTS)}") from None
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        found, fortran, kind = reader(stream)
        if found[1:] != shape or fortran or kind != np.uint8:
            expected = f"(n, {', '.join(map(str, shape))}) of uint8"
            raise DataError(f"{file}: array {name} is {found} of {kind}, expected {expected}")
        size, most = math.prod(found), min(MAX_BYTES, entry.file_size)
        if not 0 <= size <= most:
            raise DataError(f"{file}: array {name} states {size} bytes, expected at most {most}")
        content = stream.read(size)
    if len(content) != size:
        raise DataError(f"{file}: array {name} ends after {len(content)} of {size} bytes; download it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(found)
