"""Fed-IXI: brain masks of 566 small magnetic resonance volumes from three London hospitals; see the card beside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool3d

from bench.data.files import cache
from bench.data.files.download import Asset, locate
from bench.data.files.user_files import find_any, optional, unpacked
from bench.data.readers import nifti
from bench.data.readers.tables import read_table, require_columns
from bench.registry import register
from bench.types import Client, DataError, Federation, Split

LICENCE = "CC BY-SA 3.0"
CITATION = (
    "IXI data set, https://brain-development.org/ixi-dataset/; IXI Tiny of Perez-Garcia, Sparks, Ourselin: TorchIO, "
    "Computer Methods and Programs in Biomedicine (2021); split of Ogier du Terrail et al.: FLamby, NeurIPS Datasets "
    "and Benchmarks (2022)"
)
SPLIT = Asset(
    "flamby_splits/fed_ixi_metadata_tiny.csv",
    "ad3a677659b162f48c5509e9c16a36d35a75f50b0cfb1461bbb183a1e9f61c46",
    6627,
    (
        "https://raw.githubusercontent.com/owkin/FLamby/main/flamby/datasets/fed_ixi/metadata/metadata_tiny.csv",
        "https://github.com/owkin/FLamby/raw/main/flamby/datasets/fed_ixi/metadata/metadata_tiny.csv",
    ),
    "MIT",
)
ASSETS = {"split": SPLIT}
ARCHIVE = "7kd5wj7v7p-3"  # IXI Tiny as Mendeley Data publishes it, without a hash
PLACES = (f"fed_ixi/{ARCHIVE}", ARCHIVE, f"fed_ixi/{ARCHIVE}.zip", f"{ARCHIVE}.zip")
REMEDY = (
    f"download IXI Tiny ({LICENCE}, 444 MB) from https://data.mendeley.com/datasets/7kd5wj7v7p/3 "
    f"and put {ARCHIVE}.zip, or the folder it unpacks to, there"
)
CENTRES = ("Guys", "HH", "IOP")
PARTS = ("train", "test")
SHAPE = (48, 60, 48)
VOLUME = re.compile(r"(?:.*/)?IXI(\d{3})-(Guys|HH|IOP)-\d{4}/(T1|label)/[^/]+\.nii(\.gz)?")


@dataclass(frozen=True)
class Subject:
    """One volume: who, where, and in which part."""

    number: int
    centre: int
    part: str


@register("fed_ixi")
def fed_ixi(root: Path | None = None) -> Federation:
    """Where the brain is in 566 T1-weighted head volumes of 48 x 60 x 48 voxels from three hospitals.

    ``x`` is (n, 1, 48, 60, 48) float32, ``y`` (n, 2, 48, 60, 48) uint8: one-hot background and brain.
    """
    split = locate(SPLIT, root)
    subjects = parse(split)
    source = find_any(PLACES, root, REMEDY)
    optional("nibabel", "ixi")
    arrays = cache.prepared(
        "fed_ixi",
        inputs=[split, source] if source.is_file() else [split, *volumes(source).values()],
        code=[Path(__file__)],
        layout={"x": ((len(subjects), 1, *SHAPE), "float32"), "y": ((len(subjects), 2, *SHAPE), "uint8")},
        fill=lambda arrays: fill(arrays, subjects, source),
    )
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    clients = []
    for centre, name in enumerate(CENTRES):
        train, test = (rows(subjects, centre, part) for part in PARTS)
        clients.append(Client(name.lower(), Split(x[train], y[train]), Split(x[test], y[test])))
    return Federation(
        "fed_ixi",
        tuple(clients),
        "segmentation",
        metrics=("dice",),
        licence=LICENCE,
        citation=CITATION,
        loss={"name": "dice", "epsilon": 1e-9},
    )


def parse(file: Path) -> list[Subject]:
    """The subjects of FLamby's split table, by centre and part and then in the order of the table."""
    table = read_table(file)
    require_columns(table, ("Patient ID", "Manufacturer", "Split"), str(file))
    lines = zip(table["Patient ID"], table["Manufacturer"], table["Split"], strict=True)
    subjects = [Subject(int(number), int(centre), str(part)) for number, centre, part in lines]
    order = [(centre, part) for centre in range(len(CENTRES)) for part in PARTS]
    return sorted(subjects, key=lambda subject: order.index((subject.centre, subject.part)))


def rows(subjects: Sequence[Subject], centre: int, part: str) -> slice:
    """Where the subjects of a part of a centre lie; a slice of an array in the cache copies nothing."""
    mine = [row for row, each in enumerate(subjects) if (each.centre, each.part) == (centre, part)]
    return slice(mine[0], mine[-1] + 1)


def volumes(folder: Path) -> dict[tuple[int, str, str], Path]:
    """The volume files below ``folder`` by number of the subject, centre and kind ("T1" or "label")."""
    found: dict[tuple[int, str, str], Path] = {}
    for file in sorted(folder.rglob("*.nii*")):
        if match := VOLUME.fullmatch(file.relative_to(folder).as_posix()):
            key = (int(match[1]), match[2], match[3])
            if key in found:
                raise DataError(f"{file.parent} holds more than one volume, expected one; unpack the archive again")
            found[key] = file
    return found


def fill(arrays: Mapping[str, np.ndarray], subjects: Sequence[Subject], source: Path) -> None:
    """Decode all volumes into ``arrays``; raises :class:`DataError` naming what is missing or damaged."""
    with unpacked(source, lambda name: VOLUME.fullmatch(name) is not None) as folder:
        files = volumes(folder)
        for row, subject in enumerate(subjects):
            for kind in ("T1", "label"):
                key = (subject.number, CENTRES[subject.centre], kind)
                if key not in files:
                    name = f"IXI{subject.number:03d}-{key[1]}-*/{kind}/*.nii.gz"
                    raise DataError(f"{source}: there is no {name}; {REMEDY}")
                file = files[key]
                if kind == "T1":
                    arrays["x"][row, 0] = normalised(shrunk(nifti.read(file)))
                else:
                    arrays["y"][row] = one_hot(nifti.read(file), str(file))


def shrunk(volume: np.ndarray) -> np.ndarray:
    """A volume of any size at 48 x 60 x 48, every voxel the mean over its share of the old ones."""
    return adaptive_avg_pool3d(torch.from_numpy(volume)[None], SHAPE)[0].numpy()


def normalised(volume: np.ndarray) -> np.ndarray:
    """Minus the mean over all voxels, over their standard deviation (n); a constant volume becomes 0."""
    return (volume - volume.mean()) / (volume.std() or 1.0)


def one_hot(mask: np.ndarray, file: str) -> np.ndarray:
    """Background and brain (2, 48, 60, 48); only a voxel that lies wholly in the brain counts as brain."""
    if not np.isin(mask, (0, 1)).all():
        raise DataError(f"{file}: a mask with voxels other than 0 and 1; unpack the archive again")
    brain = shrunk(mask) == 1
    return np.stack([~brain, brain])
