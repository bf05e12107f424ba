"""Dermoscopy photographs of the ISIC 2019 challenge: FLamby's split table and standardised squares.

Shared by the two data sets that are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bench.data.files import cache
from bench.data.files.archive import unpacked_temporarily
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers import photographs
from bench.data.readers.tables import read_csv
from bench.types import DataError

FILES = raw_files(str(Path(__file__).with_name("fed_isic2019.md")))
CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
CENTRES = ("bcn", "vidir_molemax", "vidir_modern", "rosendahl", "msk", "vienna_dias")
PREPARED = "ISIC_2019_Training_Input_preprocessed"  # what FLamby's scripts write
SIDE = 224  # pixels of the stored squares
SEEN = 200  # pixels of the squares that a model sees
SOURCES = (Path(__file__), Path(photographs.__file__))


def read_split(root: Path | None) -> pd.DataFrame:
    """Return FLamby's table: image, target (index in CLASSES), center (index in CENTRES), fold ("train" or "test")."""
    return read_csv(locate(FILES["split"], root), ["image", *CLASSES, "UNK", "target", "center", "fold", "fold2"])


def squares(name: str, photos: Sequence[str], root: Path | None) -> Tensor:
    """Return the middle squares (n, 3, 224, 224) uint8 of the named photographs, mapped from the cache.

    Raises :class:`DataError` for a missing or damaged photograph.
    """
    source = locate(FILES["photographs"], root)
    inputs = [source] if source.is_file() else list(_files(source, photos).values())
    arrays = cache.prepared(
        name,
        inputs=inputs,
        code=SOURCES,
        layout={"x": ((len(photos), 3, SIDE, SIDE), "uint8")},
        fill=lambda arrays: _fill(arrays["x"], photos, source),
        options={"photographs": list(photos)},
    )
    return torch.from_numpy(arrays["x"])


def _fill(x: np.ndarray, photos: Sequence[str], source: Path) -> None:
    wanted = {f"{photo}.jpg" for photo in photos}
    with (
        unpacked_temporarily(source, lambda name: name.rpartition("/")[2] in wanted) as folder,
        ThreadPoolExecutor() as threads,
    ):
        files = _files(folder, photos)
        squares = threads.map(lambda photo: _square(files[photo], source.name == PREPARED), photos)
        for row, square in enumerate(squares):
            x[row] = square


def _files(folder: Path, photos: Sequence[str]) -> dict[str, Path]:
    found = {file.stem: file for file in sorted(folder.rglob("*.jpg"))}
    missing = [photo for photo in photos if photo not in found]
    if missing:
        raise DataError(
            f"{folder}: {len(missing)} photographs are missing, the first is {missing[0]}.jpg; "
            + FILES["photographs"].obtain
        )
    return {photo: found[photo] for photo in photos}


def _square(file: Path, is_prepared: bool) -> np.ndarray:
    image = photographs.read_jpeg(file)
    if not is_prepared:
        image = photographs.standardised(image, SIDE)
    if min(image.size) not in (SIDE - 1, SIDE):
        raise DataError(f"{file}: has {image.width} x {image.height} pixels, expected a shorter side of {SIDE}")
    return photographs.centre_square(np.asarray(image), SIDE).transpose(2, 0, 1)
