"""Federations from MNIST and data sets in its format: label-skewed clients of 28x28 grey-scale images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench._datasets.label_skew import LabelSkew
from bench.data.files.locate import locate
from bench.data.files.raw_file import RawFile
from bench.data.readers import idx
from bench.data.readers.images import AugmentImages, Normalise
from bench.types import Federation

Pair = tuple[Path, Path]  # the file of images and the file of labels
MIDDLE = Normalise((0.5,), (0.5,))


def pair(files: dict[str, RawFile], part: str, root: Path | None) -> Pair:
    """Return the images and labels of ``part``, "train" or "test"."""
    return locate(files[f"{part}_images"], root), locate(files[f"{part}_labels"], root)


def federation(
    name: str,
    files: Callable[[str], Pair],
    skew: LabelSkew,
    *,
    classes: int,
    per_client: int,
    mean: float,
    std: float,
    rotation: float,
) -> Federation:
    """Return a federation of images (n, 1, 28, 28) uint8, read from ``files(part)``, "train" or "test".

    The protocol "player" takes ``per_client`` images per client, normalises pixels by ``mean`` and ``std`` and
    augments training images, with up to ``rotation`` degrees; "apple" scales pixels to [-1, 1].
    """
    player = skew.protocol == "player"
    pixels = Normalise((mean,), (std,)) if player else MIDDLE
    augment = AugmentImages(pixels, rotation=rotation, translation=0.1, scaling=0.1, perspective=0.2)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        images, labels = files(part)
        return idx.read(images, labels, classes, most)

    return Federation(
        name,
        skew.clients_from(read, per_client),
        "multiclass",
        metrics=skew.metrics,
        classes=classes,
        prepare=pixels,
        augment=augment if player else None,
    )
