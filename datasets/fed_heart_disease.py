"""Fed-Heart-Disease: the four hospitals of the UCI heart disease data, prepared as in FLamby."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench._datasets import uci_heart
from bench.registry import register
from bench.types import Client, Federation, SpecError, Split, nearest

FEATURES = (
    *("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak"),
    *("cp=2", "cp=3", "cp=4", "restecg=1", "restecg=2"),
)
NORMALISATIONS = ("centre", "pooled", "as_published_central")


@register("fed_heart_disease")
def fed_heart_disease(root: Path | None = None, *, normalisation: str = "centre") -> Federation:
    """Heart disease (yes or no) of 740 patients in four hospitals, from 13 clinical features.

    Mean and standard deviation of features come from training rows: with ``normalisation`` "centre" those of the
    hospital (FLamby's default), with "pooled" those of all hospitals. "as_published_central" is "pooled" for training
    rows and "centre" for test rows, as for the central baseline in Table 2 of FENDA-FL.
    """
    if normalisation not in NORMALISATIONS:
        raise SpecError(f"normalisation = {normalisation!r}: {nearest(str(normalisation), NORMALISATIONS)}")
    parts = {}
    for client in uci_heart.FILES:
        x, y = features(uci_heart.complete(uci_heart.read(client, root)))
        train, test = split(y)
        parts[client] = (x[train], y[train], x[test], y[test])

    pooled = np.concatenate([x_train for x_train, *_ in parts.values()])
    clients = []
    for client, (x_train, y_train, x_test, y_test) in parts.items():
        for_train = x_train if normalisation == "centre" else pooled
        for_test = pooled if normalisation == "pooled" else x_train
        clients.append(
            Client(
                client,
                _tensors(standardise(x_train, for_train), y_train),
                _tensors(standardise(x_test, for_test), y_test),
            )
        )
    return Federation("fed_heart_disease", tuple(clients), "binary")


def features(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x (m, 13) in the order of FEATURES and y (m,), which is 1 for all four degrees of disease."""
    column = dict(zip(uci_heart.COMPLETE_COLUMNS, rows.T, strict=True))
    named = (feature.partition("=") for feature in FEATURES)
    x = [column[name] == float(level) if level else column[name] for name, _, level in named]
    return np.stack(x, axis=1).astype(np.float64), (column["num"] > 0).astype(np.int64)


def split(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of the fixed training part (66 %) and test part, in the order of the file.

    The split is stratified if both classes have more than two rows. Those of Switzerland do not.
    """
    stratify = y if (np.bincount(y, minlength=2) > 2).all() else None
    train, test = train_test_split(
        np.arange(len(y)), train_size=0.66, test_size=1 - 0.66, random_state=43, stratify=stratify
    )
    return np.sort(train), np.sort(test)


def standardise(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return ``x`` minus the mean of ``reference``, divided by its standard deviation (n - 1) plus 1e-9."""
    return (x - reference.mean(axis=0)) / (reference.std(axis=0, ddof=1) + 1e-9)


def _tensors(x: np.ndarray, y: np.ndarray) -> Split:
    return Split(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32)[:, None]))
