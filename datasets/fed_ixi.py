"""Fed-IXI: brain masks of 566 small magnetic resonance volumes from three London hospitals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool3d

from bench.data.files import cache
from bench.data.files.archive import unpacked_temporarily
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers import nifti, tables
from bench.optional import optional
from bench.registry import register
from bench.types import Client, DataError, Federation, Split

FILES = raw_files(__file__)
CENTRES = ("Guys", "HH", "IOP")
PARTS = ("train", "test")
SHAPE = (48, 60, 48)
VOLUME = re.compile(r"(?:.*/)?IXI(\d{3})-(Guys|HH|IOP)-\d{4}/(T1|label)/[^/]+\.nii(\.gz)?")


@dataclass(frozen=True)
class Subject:
    """One subject's number, centre (index in CENTRES) and part."""

    number: int
    centre: int
    part: str


@register("fed_ixi")
def fed_ixi(root: Path | None = None) -> Federation:
    """Brain masks of 566 T1-weighted head volumes of 48 x 60 x 48 voxels from three hospitals.

    ``x`` is (n, 1, 48, 60, 48) float32, ``y`` (n, 2, 48, 60, 48) uint8: one-hot background and brain.
    """
    split = locate(FILES["split"], root)
    subjects = parse(split)
    source = locate(FILES["volumes"], root)
    optional("nibabel", "ixi")
    arrays = cache.prepared(
        "fed_ixi",
        inputs=[split, source] if source.is_file() else [split, *volumes(source).values()],
        code=[Path(__file__), *(Path(module.__file__ or "") for module in (nifti, tables))],
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
        loss={"name": "dice", "epsilon": 1e-9},
    )


def parse(file: Path) -> list[Subject]:
    """Return the subjects of FLamby's split table, by centre and part and then in the order of the table."""
    table = tables.read_table(file)
    tables.require_columns(table, ("Patient ID", "Manufacturer", "Split"), str(file))
    lines = zip(table["Patient ID"], table["Manufacturer"], table["Split"], strict=True)
    subjects = [Subject(int(number), int(centre), str(part)) for number, centre, part in lines]
    order = [(centre, part) for centre in range(len(CENTRES)) for part in PARTS]
    return sorted(subjects, key=lambda subject: order.index((subject.centre, subject.part)))


def rows(subjects: Sequence[Subject], centre: int, part: str) -> slice:
    """Return the rows of a part of a centre, as a slice, so that no array is copied."""
    mine = [row for row, each in enumerate(subjects) if (each.centre, each.part) == (centre, part)]
    return slice(mine[0], mine[-1] + 1)


def volumes(folder: Path) -> dict[tuple[int, str, str], Path]:
    """Return the volume files below ``folder`` by number of the subject, centre and kind ("T1" or "label")."""
    found: dict[tuple[int, str, str], Path] = {}
    for file in sorted(folder.rglob("*.nii*")):
        if match := VOLUME.fullmatch(file.relative_to(folder).as_posix()):
            key = (int(match[1]), match[2], match[3])
            if key in found:
                raise DataError(f"{file.parent}: has more than one volume, expected one; unpack the archive again")
            found[key] = file
    return found


def fill(arrays: Mapping[str, np.ndarray], subjects: Sequence[Subject], source: Path) -> None:
    """Decode all volumes into ``arrays``; raise :class:`DataError` for a missing or damaged volume."""
    with unpacked_temporarily(source, lambda name: VOLUME.fullmatch(name) is not None) as folder:
        files = volumes(folder)
        for row, subject in enumerate(subjects):
            for kind in ("T1", "label"):
                key = (subject.number, CENTRES[subject.centre], kind)
                if key not in files:
                    name = f"IXI{subject.number:03d}-{key[1]}-*/{kind}/*.nii.gz"
                    raise DataError(f"{source}: there is no {name}; {FILES['volumes'].obtain}")
                file = files[key]
                if kind == "T1":
                    arrays["x"][row, 0] = normalised(shrunk(nifti.read(file)))
                else:
                    arrays["y"][row] = one_hot(nifti.read(file), str(file))


def shrunk(volume: np.ndarray) -> np.ndarray:
    """Return a volume of any size resized to 48 x 60 x 48 by averaging (adaptive average pooling)."""
    return adaptive_avg_pool3d(torch.from_numpy(volume)[None], SHAPE)[0].numpy()


def normalised(volume: np.ndarray) -> np.ndarray:
    """Return the volume minus its mean, divided by its standard deviation (n); a constant volume becomes 0."""
    return (volume - volume.mean()) / (volume.std() or 1.0)


def one_hot(mask: np.ndarray, file: str) -> np.ndarray:
    """Return background and brain (2, 48, 60, 48); a resized voxel is brain if all voxels in it are."""
    if not np.isin(mask, (0, 1)).all():
        raise DataError(f"{file}: has voxels other than 0 and 1, expected a mask; unpack the archive again")
    brain = shrunk(mask) == 1
    return np.stack([~brain, brain])
