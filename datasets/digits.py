"""Digits: the handwritten digits of scikit-learn with six label-skewed clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from bench.data.partition import dirichlet
from bench.registry import register
from bench.types import Client, Federation, SpecError, Split

CLIENTS = 6
ALPHA = 0.5
MINIMUM = 40  # samples of a client; ten of them are test samples


@register("digits")
def digits(root: Path | None = None, *, partition_seed: int = 0) -> Federation:
    """1,797 handwritten digits of 8x8 pixels, six clients with Dirichlet(0.5) label skew.

    ``x`` is (n, 64) in [0, 1], row by row. ``partition_seed`` decides the client of each image and the quarter of a
    client's images that is the test part. ``root`` is not used: the images come with scikit-learn.
    """
    if not isinstance(partition_seed, int) or isinstance(partition_seed, bool) or partition_seed < 0:
        raise SpecError(f"partition_seed = {partition_seed!r}: expected a whole number from 0")
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy((pixels / 16).astype(np.float32)), torch.from_numpy(labels.astype(np.int64))
    clients = []
    for number, indices in enumerate(dirichlet(labels, CLIENTS, ALPHA, partition_seed, MINIMUM)):
        train, test = _quarter(indices, labels[indices], partition_seed)
        clients.append(Client(f"client_{number}", Split(x[train], y[train]), Split(x[test], y[test])))
    return Federation("digits", tuple(clients), "multiclass", classes=10)


def _quarter(indices: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test indices, stratified by class."""
    counts = np.bincount(labels)
    # A class with a single image cannot be in both parts; such images are in the stratum of the most common class.
    strata = np.where(counts[labels] < 2, counts.argmax(), labels)
    train, test = train_test_split(indices, test_size=0.25, random_state=seed, stratify=strata)
    return np.sort(train), np.sort(test)
