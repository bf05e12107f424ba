"""Readers of image files: exact values, and one line for files in another format."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.readers import cifar, idx
from bench.data.readers.npz import read_medmnist
from bench.types import DataError

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (5, 28, 28), dtype=np.uint8)
LABELS = np.array([0, 9, 3, 3, 1], dtype=np.uint8)
IMAGES = struct.pack(">4I", 2051, 5, 28, 28) + PICTURES.tobytes()
NUMBERS = struct.pack(">2I", 2049, 5) + LABELS.tobytes()


def idx_files(folder: Path, images: bytes = IMAGES, labels: bytes = NUMBERS) -> tuple[Path, Path]:
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)
    return folder / "images", folder / "labels"


def test_idx_files_are_read(tmp_path: Path):
    x, y = idx.read(*idx_files(tmp_path), classes=10)
    np.testing.assert_array_equal(x, PICTURES[:, None])
    assert (x.dtype, y.dtype) == (np.uint8, np.int64)
    assert y.tolist() == LABELS.tolist()


def test_packed_idx_files_are_read(tmp_path: Path):
    images, labels = idx_files(tmp_path, gzip.compress(IMAGES), gzip.compress(NUMBERS))
    x, y = idx.read(images.rename(tmp_path / "images.gz"), labels.rename(tmp_path / "labels.gz"), classes=10)
    assert x.tobytes() == PICTURES.tobytes()
    assert y.tolist() == LABELS.tolist()


def test_only_the_wanted_items_are_looked_at(tmp_path: Path):
    files = idx_files(tmp_path, IMAGES[: 16 + 2 * 784], NUMBERS[:10])
    x, y = idx.read(*files, classes=10, most=2)
    assert x.tobytes() == PICTURES[:2].tobytes()
    assert y.tolist() == [0, 9]
    assert len(idx.read(*idx_files(tmp_path), classes=10, most=9)[1]) == 5


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (b"", NUMBERS, r"images: is not an idx file of pictures, expected it to begin with 2051; download it again$"),
        (NUMBERS, NUMBERS, "images: is not an idx file of pictures"),
        (IMAGES, IMAGES, "labels: is not an idx file of labels, expected it to begin with 2049"),
        (gzip.compress(IMAGES), NUMBERS, "images: is not an idx file of pictures"),
        (IMAGES[:-1], NUMBERS, r"images: ends too early, expected 5 items of 784 bytes; download it again$"),
        (IMAGES + b"\0", NUMBERS, "images: has bytes after the last item, expected 5 items of 784 bytes"),
        (IMAGES, NUMBERS[:-1], "labels: ends too early, expected 5 items of 1 bytes"),
        (
            struct.pack(">4I", 2051, 5, 32, 28),
            NUMBERS,
            r"images: states 5 items of shape \(32, 28\), expected \(28, 28\)",
        ),
        (struct.pack(">4I", 2051, 2**32 - 1, 28, 28), NUMBERS, "images: states 4294967295 items .* at most 1000000"),
        (IMAGES, struct.pack(">2I", 2049, 4) + bytes(4), "labels: has 4 labels, but .*images has 5 pictures"),
        (IMAGES, NUMBERS[:-2] + b"\x0a\x01", r"labels, item 3: has label 10, expected 0 to 9$"),
    ],
)
def test_other_idx_files_are_refused(tmp_path: Path, images: bytes, labels: bytes, message: str):
    with pytest.raises(DataError, match=message):
        idx.read(*idx_files(tmp_path, images, labels), classes=10)


@pytest.mark.parametrize("damage", [lambda body: body[:-9], lambda body: body[:200] + b"\xff" * 8 + body[208:]])
def test_a_damaged_packed_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]):
    images, labels = idx_files(tmp_path, damage(gzip.compress(IMAGES)))
    with pytest.raises(DataError, match=r"images\.gz: is a damaged gzip file"):
        idx.read(images.rename(tmp_path / "images.gz"), labels, classes=10)


def cifar_rows(count: int) -> np.ndarray:
    rows = RANDOM.integers(0, 256, (count, 3073), dtype=np.uint8)
    rows[:, 0] %= 10
    return rows


def test_cifar_batches_are_read_one_after_the_other(tmp_path: Path):
    rows = cifar_rows(7)
    (tmp_path / "1.bin").write_bytes(rows[:4].tobytes())
    (tmp_path / "2.bin").write_bytes(rows[4:].tobytes())
    x, y = cifar.read([tmp_path / "1.bin", tmp_path / "2.bin"])
    assert y.tolist() == rows[:, 0].tolist()
    # Third row, green plane, second line, fifth pixel.
    assert x[2, 1, 1, 4] == rows[2, 1 + 1024 + 32 + 4]
    assert (x.shape, x.dtype, y.dtype) == ((7, 3, 32, 32), np.uint8, np.int64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x\.bin: has 0 bytes, expected 1 to 10000 rows of 3073 bytes; download it again$"),
        (cifar_rows(2).tobytes()[:-1], "has 6145 bytes, expected 1 to 10000 rows"),
        (bytes(3073 * 10_001), "has 30733073 bytes, expected 1 to 10000 rows"),
        (bytes(3073) + b"\x0a" + bytes(3072), r"x\.bin, row 1: label 10, expected 0 to 9$"),
    ],
)
def test_other_cifar_files_are_refused(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        cifar.read([tmp_path / "x.bin"])


def medmnist(channels: int = 3, **changes: np.ndarray | None) -> dict[str, np.ndarray]:
    """The six arrays of a small file with 4, 2 and 3 pictures."""
    colours = () if channels == 1 else (channels,)
    arrays: dict[str, np.ndarray | None] = {}
    for part, count in (("train", 4), ("val", 2), ("test", 3)):
        arrays[f"{part}_images"] = RANDOM.integers(0, 256, (count, 28, 28, *colours), dtype=np.uint8)
        arrays[f"{part}_labels"] = RANDOM.integers(0, 9, (count, 1), dtype=np.uint8)
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def npz(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez_compressed(folder / "small.npz", **arrays)
    return folder / "small.npz"


@pytest.mark.parametrize("channels", [1, 3])
def test_medmnist_parts_are_merged_in_order(tmp_path: Path, channels: int):
    arrays = medmnist(channels)
    x, y = read_medmnist(npz(tmp_path, arrays), channels, 9)
    assert (x.shape, x.dtype, y.dtype) == ((9, channels, 28, 28), np.uint8, np.int64)
    assert y.tolist() == [int(label) for part in ("train", "val", "test") for label in arrays[f"{part}_labels"][:, 0]]
    last = arrays["test_images"][2].reshape(28, 28, channels)
    np.testing.assert_array_equal(x[8], last.transpose(2, 0, 1))
    assert x.flags.c_contiguous


def pickled() -> np.ndarray:
    return np.array([{"a": 1}] * 4, dtype=object)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (medmnist(val_labels=None), r"small\.npz: has no array val_labels; expected images and labels of train, val"),
        (medmnist(1), r"array train_images is \(4, 28, 28\) of uint8, expected \(n, 28, 28, 3\) of uint8$"),
        (medmnist(train_images=np.zeros((4, 28, 28, 3))), r"array train_images is \(4, 28, 28, 3\) of float64"),
        (medmnist(train_labels=pickled()), r"array train_labels is \(4,\) of object, expected \(n, 1\) of uint8"),
        (medmnist(test_labels=np.zeros((2, 1), np.uint8)), "part test has 3 pictures and 2 labels"),
        (medmnist(val_labels=np.full((2, 1), 9, np.uint8)), "picture 4 of all parts: has label 9, expected 0 to 8"),
    ],
)
def test_other_npz_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str):
    with pytest.raises(DataError, match=message):
        read_medmnist(npz(tmp_path, arrays), 3, 9)


@pytest.mark.parametrize("announced", [2**40, 5, -1, 3])
def test_an_array_of_another_size_than_announced_is_refused(tmp_path: Path, announced: int):
    body = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (announced, 28, 28, 3)}
    np.lib.format.write_array_header_1_0(body, header)
    file = npz(tmp_path, medmnist(train_images=None))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("train_images.npy", body.getvalue() + bytes(4 * 28 * 28 * 3))
    with pytest.raises(DataError, match=r"states|ends after|part train has 3 pictures and 4 labels"):
        read_medmnist(file, 3, 9)


def read_damaged(name: str, content: bytes, read: Callable[[Path], object]) -> None:
    """Check that reading returns arrays or raises a DataError of one line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            read(file)
        except DataError as error:
            assert str(file) in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017


def flipped(content: bytes, flips: list[tuple[int, int]], length: int) -> bytes:
    damaged = bytearray(content)
    for place, value in flips:
        damaged[place % len(damaged)] ^= value
    return bytes(damaged[: len(damaged) - length])


def whole_npz() -> bytes:
    body = io.BytesIO()
    np.savez_compressed(body, **medmnist(1))
    return body.getvalue()


NPZ = whole_npz()
flips = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), max_size=4)


@settings(deadline=None)
@given(flips=flips, cut=st.integers(0, 60))
def test_damaged_idx_files_never_surprise(flips: list[tuple[int, int]], cut: int):
    with tempfile.TemporaryDirectory() as folder:
        _, labels = idx_files(Path(folder))
        read_damaged("images", flipped(IMAGES[:100], flips, cut), lambda file: idx.read(file, labels, 10, most=0))
        read_damaged("images.gz", flipped(gzip.compress(IMAGES), flips, cut), lambda file: idx.read(file, labels, 10))


@pytest.mark.filterwarnings("ignore:Reading `.npy`", "ignore:invalid escape sequence", "ignore:invalid decimal literal")
@settings(deadline=None)
@given(flips=flips, cut=st.integers(0, 60))
def test_damaged_npz_files_never_surprise(flips: list[tuple[int, int]], cut: int):
    read_damaged("small.npz", flipped(NPZ, flips, cut), lambda file: read_medmnist(file, 1, 9))


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, 127), st.integers(1, 255)), min_size=1, max_size=3))
def test_damaged_array_headers_never_surprise(flips: list[tuple[int, int]]):
    body = io.BytesIO()
    np.save(body, np.zeros((4, 28, 28), np.uint8))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("train_images.npy", flipped(body.getvalue(), flips, 0))
    read_damaged("small.npz", packed.getvalue(), lambda file: read_medmnist(file, 1, 9))
