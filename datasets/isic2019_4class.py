"""ISIC 2019 with four lesions and four sites, prepared as in PLayer-FL."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from bench._datasets import isic2019
from bench.data.readers.images import Normalise
from bench.data.readers.photographs import AugmentPhotographs, CentreCrop
from bench.registry import register
from bench.types import Client, Federation, Split

CLASSES = ("BCC", "BKL", "MEL", "NV")
SITES = ("bcn", "rosendahl", "vidir_modern", "vidir_molemax")
MAX_PHOTOGRAPHS = 5000  # of a site
SEED = 42
PIXELS = Normalise(mean=(0.585, 0.500, 0.486), std=(0.229, 0.224, 0.225))


@register("isic2019_4class")
def isic2019_4class(root: Path | None = None) -> Federation:
    """Four kinds of skin lesions on 13,999 photographs from four sites.

    Each site has fixed parts: 64 % for training, 16 % for validation, 20 % for testing, not stratified. ``x`` is
    (n, 3, 224, 224) uint8. A model sees 200 x 200 pixels: in local steps a random crop of augmented photographs, in
    validation and tests the middle, as in the authors' code.
    """
    sites = sampled(isic2019.read_split(root))
    parts = [part for site in SITES for part in split(sites[site])]
    table = pd.concat(parts, ignore_index=True)
    x = isic2019.squares("isic2019_4class", table["image"].tolist(), root)
    y = torch.tensor(table["label"].to_numpy())
    sizes = [len(part) for part in parts]
    pairs = [Split(*pair) for pair in zip(x.split(sizes), y.split(sizes), strict=True)]
    clients = [
        Client(site, train, test, validation)
        for site, train, validation, test in zip(SITES, pairs[::3], pairs[1::3], pairs[2::3], strict=True)
    ]
    return Federation(
        "isic2019_4class",
        tuple(clients),
        "multiclass",
        metrics=("macro_f1", "accuracy", "loss"),
        classes=len(CLASSES),
        loss={"name": "focal_all_classes", "gamma": 1.0, "alpha": alpha(sites), "scale": 10.0},
        prepare=CentreCrop(PIXELS, isic2019.SEEN),
        augment=AugmentPhotographs(PIXELS, size=isic2019.SEEN),
    )


def sampled(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return at most 5000 photographs of the four lesions for every centre, in random order, with their ``label``."""
    codes = {isic2019.CLASSES.index(name): label for label, name in enumerate(CLASSES)}
    kept = table[table["target"].isin(list(codes))].sort_values("image")
    kept = kept.assign(label=kept["target"].map(codes))
    centres = ((name, kept[kept["center"] == number]) for number, name in enumerate(isic2019.CENTRES))
    return {name: rows.sample(min(len(rows), MAX_PHOTOGRAPHS), random_state=SEED) for name, rows in centres}


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return training, validation and test rows of a site."""
    rest, test = train_test_split(rows, test_size=0.2, random_state=SEED)
    train, validation = train_test_split(rest, test_size=0.2, random_state=SEED)
    return train, validation, test


def alpha(sites: dict[str, pd.DataFrame]) -> list[float]:
    """Return the weight of each class: one minus its share among the photographs of all six centres."""
    shares = pd.concat(sites.values())["label"].value_counts(normalize=True).sort_index()
    return (1 - shares).tolist()
