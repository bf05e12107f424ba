"""Fed-ISIC2019: photographs of eight kinds of skin lesions from six centres, prepared as in FLamby."""

from __future__ import annotations

from pathlib import Path

import torch

from bench._datasets import isic2019
from bench.data.readers.images import Normalise
from bench.data.readers.photographs import AugmentPhotographs, CentreCrop
from bench.registry import register
from bench.types import Client, Federation, Split

PIXELS = Normalise(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))  # statistics of ImageNet


@register("fed_isic2019")
def fed_isic2019(root: Path | None = None) -> Federation:
    """Eight kinds of skin lesions on 23,247 photographs from six centres.

    ``x`` is (n, 3, 224, 224) uint8. A model sees 200 x 200 pixels: in local steps a random crop of augmented
    photographs, in validation and tests the middle. (FENDA-FL's code also validates on augmented photographs.)
    """
    table = isic2019.read_split(root)
    # Sorted by client and part, so that each part is a slice, which needs no copy.
    table = table.sort_values(["center", "fold"], ascending=[True, False], kind="stable", ignore_index=True)
    x = isic2019.squares("fed_isic2019", table["image"].tolist(), root)
    y = torch.tensor(table["target"].to_numpy())
    clients = []
    for number, name in enumerate(isic2019.CENTRES):
        train, test = (
            slice(rows[0], rows[-1] + 1)
            for rows in (
                table.index[(table["center"] == number) & (table["fold"] == fold)] for fold in ("train", "test")
            )
        )
        clients.append(Client(name, Split(x[train], y[train]), Split(x[test], y[test])))
    counts = table.loc[table["fold"] == "train", "target"].value_counts().sort_index()
    return Federation(
        "fed_isic2019",
        tuple(clients),
        "multiclass",
        metrics=("balanced_accuracy",),
        classes=len(isic2019.CLASSES),
        # Class weights: all training photographs of all centres over those of the class.
        loss={"name": "focal", "gamma": 2.0, "alpha": (counts.sum() / counts).tolist()},
        prepare=CentreCrop(PIXELS, isic2019.SEEN),
        augment=AugmentPhotographs(PIXELS, size=isic2019.SEEN),
    )
