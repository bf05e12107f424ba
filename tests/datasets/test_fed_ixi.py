"""Fed-IXI on small archives in the published structure, with a small split table in FLamby's format."""

from __future__ import annotations

import gzip
import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.data import load_dataset
from bench.data.readers import nifti
from bench.registry import load
from bench.types import DataError, SilobenchError

adapter = load("datasets", "fed_ixi").__globals__
SPLIT = adapter["FILES"]["split"].path
TINY = (7, 5, 6)
SIZES = {"guys": (3, 2), "hh": (2, 1), "iop": (1, 1)}  # training and test subjects of the small table
TABLE = """Patient ID,Manufacturer,Split
2,0,test
12,1,test
13,1,train
14,1,train
16,0,train
17,0,train
19,0,train
20,0,test
35,2,train
36,2,test
"""


def volume(voxels: np.ndarray) -> bytes:
    nibabel = pytest.importorskip("nibabel")
    return gzip.compress(nibabel.Nifti1Image(voxels, np.eye(4)).to_bytes(), mtime=0)


def pair(number: int) -> tuple[np.ndarray, np.ndarray]:
    """The image and the mask of a subject, small and different for each."""
    generator = np.random.default_rng(number)
    mask = np.zeros(TINY, dtype=np.uint8)
    mask[2:5, 1:4, 2:5] = 1
    return generator.normal(number, 3, TINY).astype(np.float32), mask


def zipped(split: Path, path: Path) -> Path:
    """An archive of all subjects of ``split`` in the structure of 7kd5wj7v7p-3.zip."""
    files: dict[str, bytes] = {}
    for subject in adapter["parse"](split):
        centre = ("Guys", "HH", "IOP")[subject.centre]
        stem = f"IXI{subject.number:03d}-{centre}-{1000 + subject.number}"
        image, mask = pair(subject.number)
        files[f"7kd5wj7v7p-3/IXI_sample/{stem}/T1/{stem}-T1.nii.gz"] = volume(image)
        files[f"7kd5wj7v7p-3/IXI_sample/{stem}/label/{stem}_label.nii.gz"] = volume(mask)
    files["7kd5wj7v7p-3/readme.txt"] = b"IXI Tiny"
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the small split table, which is the published one during the test."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    (tmp_path / "raw" / SPLIT).parent.mkdir(parents=True)
    (tmp_path / "raw" / SPLIT).write_text(TABLE)
    sha256 = hashlib.sha256(TABLE.encode()).hexdigest()
    files = adapter["FILES"]
    monkeypatch.setitem(files, "split", replace(files["split"], sha256=sha256, size=len(TABLE)))
    return tmp_path / "raw"


@pytest.fixture
def archive(folder: Path) -> Path:
    return zipped(folder / SPLIT, folder / "7kd5wj7v7p-3.zip")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """A small size of resized volumes, so that arrays need less than 470 MB."""
    monkeypatch.setitem(adapter, "SHAPE", (4, 5, 4))
    return (4, 5, 4)


def test_the_split_is_flambys(bench_data: Path):
    subjects = adapter["parse"](bench_data / SPLIT)
    counts = {
        centre.lower(): tuple(
            sum((each.centre, each.part) == (number, part) for each in subjects) for part in ("train", "test")
        )
        for number, centre in enumerate(adapter["CENTRES"])
    }
    assert counts == {"guys": (249, 62), "hh": (145, 36), "iop": (59, 15)}
    assert len({subject.number for subject in subjects}) == 566


def test_archive_and_folder_make_the_same_clients(archive: Path, cache: Path, small: tuple[int, int, int]):
    federation = load_dataset("fed_ixi", archive.parent)
    assert {client.name: (len(client.train), len(client.test)) for client in federation.clients} == SIZES
    assert (federation.task, federation.metrics, federation.loss["name"]) == ("segmentation", ("dice",), "dice")
    first = federation.clients[0].train  # subject 16 is the first of Guy's in the training part
    image, mask = pair(16)
    assert first.x[0].shape == (1, *small)
    assert first.y.shape == (3, 2, *small)
    assert (first.x.dtype, first.y.dtype) == (torch.float32, torch.uint8)
    np.testing.assert_allclose(first.x[0, 0], adapter["normalised"](adapter["shrunk"](image.astype(np.float64))), 1e-5)
    np.testing.assert_array_equal(first.y[0], adapter["one_hot"](mask.astype(np.float64), "mask"))
    assert list(cache.glob("unpacked-*")) == []

    with zipfile.ZipFile(archive) as opened:
        opened.extractall(archive.parent / "fed_ixi")
    archive.unlink()
    assert load_dataset("fed_ixi", archive.parent).fingerprint == federation.fingerprint


@pytest.mark.usefixtures("small")
def test_later_loads_map_what_the_first_one_made(archive: Path, monkeypatch: pytest.MonkeyPatch):
    federation = load_dataset("fed_ixi", archive.parent)
    monkeypatch.setattr(nifti, "read", None)
    assert load_dataset("fed_ixi", archive.parent).fingerprint == federation.fingerprint
    parts = [client.train.x for client in federation.clients]
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1


def test_resizing_by_hand():
    """Resizing 96 x 60 x 48 halves the first axis: pairs are averaged."""
    voxels = np.arange(96 * 60 * 48, dtype=np.float64).reshape(96, 60, 48)
    np.testing.assert_allclose(adapter["shrunk"](voxels), voxels.reshape(48, 2, 60, 48).mean(axis=1))


def test_only_whole_voxels_are_brain():
    mask = np.zeros((96, 60, 48))
    mask[1:6] = 1
    brain = adapter["one_hot"](mask, "mask")
    assert brain.sum(axis=0).min() == brain.sum(axis=0).max() == 1
    assert np.flatnonzero(brain[1].all(axis=(1, 2))).tolist() == [1, 2]


@settings(max_examples=10, deadline=None)
@given(st.tuples(*[st.integers(20, 90)] * 3))
def test_a_full_mask_stays_full_at_any_size(shape: tuple[int, int, int]):
    assert adapter["one_hot"](np.ones(shape), "mask")[1].all()


def test_volumes_are_normalised_over_all_voxels():
    volume = np.random.default_rng(0).normal(5, 2, (4, 4, 4))
    made = adapter["normalised"](volume)
    assert abs(made.mean()) < 1e-12
    assert made.std() == pytest.approx(1)
    assert not adapter["normalised"](np.full((2, 2, 2), 3.0)).any()


@pytest.mark.parametrize("kind", ["T1", "label"])
def test_a_missing_volume_is_named(cache: Path, folder: Path, kind: str):
    """Only one of the two volumes of subject 16, which is the first, is in the folder."""
    other = {"T1": "label", "label": "T1"}[kind]
    place = folder / "7kd5wj7v7p-3" / "IXI_sample" / "IXI016-Guys-0697" / other
    place.mkdir(parents=True)
    (place / "some.nii.gz").write_bytes(volume(pair(16)[other == "label"]))
    with pytest.raises(DataError, match=rf"there is no IXI016-Guys-\*/{kind}/\*.nii.gz; download IXI Tiny"):
        load_dataset("fed_ixi", folder)
    assert [path for path in (cache / "prepared" / "fed_ixi").iterdir() if path.suffix != ".lock"] == []


def test_a_mask_of_other_numbers_is_refused():
    with pytest.raises(DataError, match="file: has voxels other than 0 and 1"):
        adapter["one_hot"](np.full((2, 2, 2), 255.0), "file")


def test_without_the_data_the_error_says_where_to_get_it(folder: Path):
    with pytest.raises(DataError, match=r"7kd5wj7v7p-3\.zip: not found in .*; download IXI Tiny \(CC BY-SA 3\.0, 444"):
        load_dataset("fed_ixi", folder)


def test_without_nibabel_the_error_names_the_extra(archive: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(SilobenchError, match=r"^the library nibabel is not installed; run pip install 'silobench\[ixi"):
        load_dataset("fed_ixi", archive.parent)


@pytest.mark.parametrize(
    ("voxels", "message"),
    [
        (np.zeros((2, 2), np.float32), "expected three axes"),
        (np.zeros((2, 2, 2, 2), np.float32), "expected three axes"),
        (np.zeros((600, 1, 1), np.uint8), "three axes of 1 to 512"),
        (np.zeros((2, 2, 2), np.complex64), "real numbers"),
        (np.full((2, 2, 2), np.nan, np.float32), "has voxels that are not finite"),
    ],
)
def test_other_volumes_are_refused(tmp_path: Path, voxels: np.ndarray, message: str):
    file = tmp_path / "volume.nii.gz"
    file.write_bytes(volume(voxels))
    with pytest.raises(DataError, match=message):
        nifti.read(file)


def test_a_compressed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nifti, "MAX_BYTES", 1000)
    file = tmp_path / "volume.nii.gz"
    file.write_bytes(volume(np.zeros((10, 10, 10), np.float32)))
    with pytest.raises(DataError, match="is truncated or decompresses to more than 1000 bytes"):
        nifti.read(file)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_volumes_are_refused_in_one_line_or_harmless(tmp_path: Path, data: st.DataObject):
    raw = bytearray(gzip.decompress(volume(pair(1)[0])))
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[place] ^= data.draw(st.integers(1, 255))
    else:
        del raw[place:]
    file = tmp_path / "volume.nii"
    file.write_bytes(raw)
    try:
        voxels = nifti.read(file)
    except DataError as error:
        message = str(error)
    else:
        message = f"{voxels.ndim} axes, finite: {np.isfinite(voxels).all()}"
    assert message == "3 axes, finite: True" or (message.startswith(str(file)) and "\n" not in message)
