"""Fed-IXI: brain masks of 566 small magnetic resonance volumes from three London hospitals; see the card beside."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool3d

from bench.data import archive, cache
from bench.data.fetch import Asset, locate
from bench.data.files import find_any, optional
from bench.data.tables import read_table, require_columns
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
        "https://cdn.jsdelivr.net/gh/owkin/FLamby@main/flamby/datasets/fed_ixi/metadata/metadata_tiny.csv",
    ),
    "MIT",
)
ASSETS = {"split": SPLIT}
PLACES = ("fed_ixi", "7kd5wj7v7p-3", "7kd5wj7v7p-3.zip")
REMEDY = (
    'download "IXI Tiny" (CC BY-SA 3.0, 444 MB) from https://data.mendeley.com/datasets/7kd5wj7v7p/3 and put '
    "7kd5wj7v7p-3.zip, or the folder it unpacks to, there"
)
CENTRES = ("Guys", "HH", "IOP")
SIZES = ((249, 62), (145, 36), (59, 15))  # training and test volumes of each centre
SHAPE = (48, 60, 48)
LONGEST = 512  # voxels along an axis of a volume that is still read
LARGEST = 64 * 2**20  # bytes of a file, unpacked
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
        inputs=[split, source] if source.is_file() else [split, *sorted(source.rglob("*.nii*"))],
        code=[Path(__file__)],
        layout={"x": ((len(subjects), 1, *SHAPE), "float32"), "y": ((len(subjects), 2, *SHAPE), "uint8")},
        fill=lambda arrays: fill(arrays, subjects, source),
    )
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    clients, start = [], 0
    for centre, sizes in zip(CENTRES, SIZES, strict=True):
        parts = []
        for size in sizes:
            parts.append(Split(x[start : start + size], y[start : start + size]))
            start += size
        clients.append(Client(centre.lower(), *parts))
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
    """FLamby's split table: every centre's training subjects, then its test subjects, in the order of the table."""
    table = read_table(file)
    require_columns(table, ("Patient ID", "Manufacturer", "Split"), str(file))
    rows = zip(table["Patient ID"], table["Manufacturer"], table["Split"], strict=True)
    subjects = [Subject(int(number), int(centre), str(part)) for number, centre, part in rows]
    parts = [(centre, part) for centre in range(len(CENTRES)) for part in ("train", "test")]
    ordered = [subject for where in parts for subject in subjects if (subject.centre, subject.part) == where]
    counts = tuple(sum((each.centre, each.part) == where for each in subjects) for where in parts)
    if counts != sum(SIZES, ()) or len({subject.number for subject in ordered}) != len(subjects):
        raise DataError(f"{file}: {counts} subjects by centre and part, each once, expected {sum(SIZES, ())}")
    return ordered


def fill(arrays: Mapping[str, np.ndarray], subjects: Sequence[Subject], source: Path) -> None:
    """Decode all volumes into ``arrays``; raises :class:`DataError` naming the file that is missing or damaged."""
    scratch = source.parent if False else cache.scratch()
    with archive.unpacked(source, scratch, lambda name: VOLUME.fullmatch(name) is not None) as folder:
        files = volumes(folder, source)
        for row, subject in enumerate(subjects):
            image, label = (files.get((subject.number, kind)) for kind in ("T1", "label"))
            who = f"IXI{subject.number:03d}-{CENTRES[subject.centre]}"
            if image is None or label is None or f"{who}-" not in image.as_posix():
                kind = "label" if label is None else "T1"
                raise DataError(f"{source}: no volume {who}-*/{kind}/*.nii.gz, expected one; {REMEDY}")
            arrays["x"][row, 0] = normalised(shrunk(read(image)))
            arrays["y"][row] = one_hot(label, shrunk(read(label)))
