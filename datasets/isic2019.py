"""The dermoscopy photographs of the ISIC 2019 challenge: FLamby's split table and standardised squares.

No preparation of any paper beyond the one that both start from.
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
from bench.data.files.download import Asset, locate
from bench.data.files.user_files import find_any, unpacked
from bench.data.readers import photographs
from bench.data.readers.tables import read_csv
from bench.types import DataError

LICENCE = "CC BY-NC 4.0"
CITATION = (
    "Tschandl, Rosendahl, Kittler: The HAM10000 dataset, Scientific Data (2018); Codella et al.: Skin Lesion Analysis "
    "Toward Melanoma Detection, ISBI (2018); Combalia et al.: BCN20000 (2019); centres and split of Ogier du Terrail "
    "et al.: FLamby, NeurIPS Datasets and Benchmarks (2022)"
)
SPLIT = Asset(
    "flamby_splits/fed_isic2019_train_test_split",
    "d0f9d0d0102f60d78b4c5f9f0ef32100881a8e92fe6c38644f980b3eb4e1a86c",
    1558106,
    (
        "https://raw.githubusercontent.com/owkin/FLamby/main/flamby/datasets/fed_isic2019/dataset_creation_scripts/train_test_split",
        "https://github.com/owkin/FLamby/raw/main/flamby/datasets/fed_isic2019/dataset_creation_scripts/train_test_split",
    ),
    "MIT",
)
CLASSES = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
CENTRES = ("bcn", "vidir_molemax", "vidir_modern", "rosendahl", "msk", "vienna_dias")
PREPARED = "ISIC_2019_Training_Input_preprocessed"  # what FLamby's scripts write
PUBLISHED = "ISIC_2019_Training_Input"
PLACES = tuple(
    f"{folder}{name}" for name in (PREPARED, PUBLISHED, f"{PUBLISHED}.zip") for folder in ("fed_isic2019/", "")
)
REMEDY = (
    f"download https://isic-challenge-data.s3.amazonaws.com/2019/{PUBLISHED}.zip ({LICENCE}, 9.1 GB) and put it, "
    f"or the folder {PUBLISHED} it unpacks to, or the folder {PREPARED} that FLamby makes of it, there"
)
SIDE = 224  # of the squares that are kept
SEEN = 200  # of the squares that a model sees
SOURCES = (Path(__file__), Path(photographs.__file__))


def read_split(root: Path | None) -> pd.DataFrame:
    """FLamby's table: image, target (a number in CLASSES), center (a number in CENTRES), fold ("train" or "test")."""
    return read_csv(locate(SPLIT, root), ["image", *CLASSES, "UNK", "target", "center", "fold", "fold2"])


def squares(name: str, photos: Sequence[str], root: Path | None) -> Tensor:
    """The middle squares (n, 3, 224, 224) uint8 of the named photographs in this order, mapped from the cache.

    Raises :class:`DataError` naming what is missing or damaged.
    """
    source = find_any(PLACES, root, REMEDY)
    inputs = [source] if source.is_file() else list(_files(source, photos).values())
    arrays = cache.prepared(
        name,
        inputs=inputs,
        code=SOURCES,
        layout={"x": ((len(photos), 3, SIDE, SIDE), "uint8")},
        fill=lambda arrays: _fill(arrays["x"], photos, source),
    )
    return torch.from_numpy(arrays["x"])


def _fill(x: np.ndarray, photos: Sequence[str], source: Path) -> None:
    wanted = {f"{photo}.jpg" for photo in photos}
    with (
        unpacked(source, lambda name: name.rpartition("/")[2] in wanted) as folder,
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
        raise DataError(f"{folder}: {len(missing)} photographs are not there, the first is {missing[0]}.jpg; {REMEDY}")
    return {photo: found[photo] for photo in photos}


def _square(file: Path, is_prepared: bool) -> np.ndarray:
    image = photographs.read_jpeg(file)
    if not is_prepared:
        image = photographs.standardised(image, SIDE)
    if min(image.size) not in (SIDE - 1, SIDE):
        raise DataError(f"{file} has {image.width} x {image.height} pixels, expected a shorter side of {SIDE}")
    return photographs.centre_square(np.asarray(image), SIDE).transpose(2, 0, 1)
