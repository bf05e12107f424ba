"""Metrics of a model's probabilities on one client; None where a metric is undefined there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.types import SpecError, nearest

Array = np.ndarray
Metric = Callable[[Array, Array], float | None]


def predicted(p: Array) -> Array:
    """Class numbers (n,) from the probability of class 1 (n, 1) at > 0.5, or of every class (n, k)."""
    return (p[:, 0] > 0.5).astype(np.int64) if p.shape[1] == 1 else p.argmax(1)


def accuracy(p: Array, y: Array) -> float:
    """Share of samples whose class is predicted."""
    return float((predicted(p) == y).mean())


def balanced_accuracy(p: Array, y: Array) -> float:
    """Mean recall over the classes that the client has."""
    guess = predicted(p)
    return float(np.mean([(guess[y == label] == label).mean() for label in np.unique(y)]))


def auroc(p: Array, y: Array) -> float | None:
    """Area under the ROC curve, one against rest averaged over classes; undefined unless every class is there."""
    columns = 2 if p.shape[1] == 1 else p.shape[1]
    if len(np.unique(y)) < columns:
        return None
    from sklearn.metrics import roc_auc_score  # takes a second to import, and few tasks are scored by it

    return float(roc_auc_score(y, p[:, 0] if columns == 2 and p.shape[1] == 1 else p, multi_class="ovr"))


def dice(p: Array, y: Array) -> float:
    """Mean over samples and channels of |P Y| / (0.5 (|P| + |Y|)) of masks at > 0.5; 1 where both are empty.

    FENDA-FL, appendix A.2; ``p`` and ``y`` are (n, channels, ...).
    """
    mask, target = (p > 0.5).reshape(*p.shape[:2], -1), (y > 0.5).reshape(*y.shape[:2], -1)
    overlap, total = (mask & target).sum(2), mask.sum(2) + target.sum(2)
    return float(np.where(total == 0, 1.0, overlap / (0.5 * total + 1e-7)).mean())


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "auroc": auroc,
    "dice": dice,
}


def metric(name: str) -> Metric:
    """The metric called ``name``; raises :class:`SpecError` naming the nearest known one."""
    if name not in METRICS:
        raise SpecError(f"unknown metric {name!r}: {nearest(name, METRICS)}")
    return METRICS[name]
