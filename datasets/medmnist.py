"""Federations from data sets of MedMNIST: label-skewed clients of 28x28 medical images, as in APPLE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from bench._datasets.label_skew import Labelled, LabelSkew
from bench.data.readers.images import Normalise
from bench.data.readers.npz import medmnist
from bench.types import Federation


def federation(name: str, file: Path, skew: LabelSkew, *, channels: int, classes: int) -> Federation:
    """Return a federation of images (n, channels, 28, 28) uint8 from MedMNIST's npz ``file``."""
    train, test = merged_and_split(*medmnist(name, file, channels, classes))
    pixels = Normalise((0.5,) * channels, (0.5,) * channels)
    return Federation(name, skew.cut(train, test), "multiclass", classes=classes, prepare=pixels)


def merged_and_split(x: np.ndarray, y: np.ndarray) -> tuple[Labelled, Labelled]:
    """Return 80 % of all samples for training and 20 % for testing, stratified by class, with APPLE's fixed seed."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=42, stratify=y)
    return (x[train], y[train]), (x[test], y[test])
