"""Metrics of a model's probabilities on one client.

``p`` holds the probability of class 1 (n, 1) for a binary task, or of every class (n, k); ``y`` (n,) holds class
numbers. A metric is None where it is undefined. Metrics that average over classes have variants, which treat classes
without samples at the client differently. The metric ``loss`` is the training loss (:mod:`bench.train.evaluate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bench.types import SpecError, nearest

Array = np.ndarray
Metric = Callable[[Array, Array], float | None]
# The mean training loss over test samples, class weights included; lower is better. Source: Elhussein and Gürsoy
# (2025), Table A.10, which prints 100 times this value, with equal weights for all mini-batches.
LOSS = "loss"
LOGIT_HALF = 1 / (1 + math.exp(-0.5))  # the probability of a logit of 0.5: 0.622


def predicted(p: Array) -> Array:
    """Return class numbers (n,): class 1 above a probability of 0.5 (n, 1), or the most probable class (n, k)."""
    return (p[:, 0] > 0.5).astype(np.int64) if p.shape[1] == 1 else p.argmax(1)


def predicted_at_logit_half(p: Array) -> Array:
    """Return class numbers as :func:`predicted` does, but class 1 from a logit of 0.5 instead of a logit of 0.

    Source: the released code of Global Layers (heart cohorts) and of FENDA-FL (GEMINI) compares logits with 0.5.
    """
    return (p[:, 0] >= np.float32(LOGIT_HALF)).astype(np.int64) if p.shape[1] == 1 else p.argmax(1)


def accuracy(p: Array, y: Array) -> float:
    """Return the share of samples whose class is predicted correctly."""
    return _share_right(predicted(p), y)


def accuracy_at_logit_half(p: Array, y: Array) -> float:
    """Return the accuracy of :func:`predicted_at_logit_half`. Source: FENDA-FL, Tables 3 and 4."""
    return _share_right(predicted_at_logit_half(p), y)


def balanced_accuracy(p: Array, y: Array) -> float:
    """Return the mean recall over the classes that the client has. Source: Global Layers, Table 16 (Covertype)."""
    return _mean_recall(predicted(p), y)


def balanced_accuracy_at_logit_half(p: Array, y: Array) -> float:
    """Return the mean recall of :func:`predicted_at_logit_half`. Source: Global Layers, Table 16 (heart cohorts)."""
    return _mean_recall(predicted_at_logit_half(p), y)


def macro_f1(p: Array, y: Array) -> float:
    """Return the mean of 2 TP / (2 TP + FP + FN) over the classes that the client has or the model predicts.

    Source: Elhussein and Gürsoy (2025), Table 1.
    """
    guess = predicted(p)
    labels = np.union1d(guess, y)
    right = [((guess == label) & (y == label)).sum() for label in labels]
    either = [(guess == label).sum() + (y == label).sum() for label in labels]
    return float(np.mean(2 * np.array(right) / np.array(either)))


def auroc(p: Array, y: Array) -> float | None:
    """Return the area under the ROC curve, one class against the rest, averaged; None unless every class occurs."""
    return _mean(_roc_areas(p, y))


def auroc_present(p: Array, y: Array) -> float | None:
    """Return :func:`auroc` averaged over the classes for which it is defined; None if there is none."""
    return _mean([area for area in _roc_areas(p, y) if area is not None])


def auroc_absent_half(p: Array, y: Array) -> float | None:
    """Return :func:`auroc` with 0.5 for a class that no sample, or every sample, belongs to."""
    return _mean([0.5 if area is None else area for area in _roc_areas(p, y)])


def auprc(p: Array, y: Array) -> float | None:
    """Return the average precision (no interpolation), averaged over classes; None unless every class occurs.

    For a binary task it is the average precision of class 1.
    """
    return _mean(_average_precisions(p, y))


def auprc_present(p: Array, y: Array) -> float | None:
    """Return :func:`auprc` averaged over the classes that occur; None if there is none."""
    return _mean([area for area in _average_precisions(p, y) if area is not None])


def auprc_absent_zero(p: Array, y: Array) -> float | None:
    """Return :func:`auprc` with 0 for a class that does not occur."""
    return _mean([0.0 if area is None else area for area in _average_precisions(p, y)])


def dice(p: Array, y: Array) -> float:
    """Return the mean over samples and channels of |P Y| / (0.5 (|P| + |Y|)) of masks above 0.5; 1 if both are empty.

    ``p`` and ``y`` are (n, channels, ...). Source: FENDA-FL, appendix A.2.
    """
    mask, target = (p > 0.5).reshape(*p.shape[:2], -1), (y > 0.5).reshape(*y.shape[:2], -1)
    overlap, total = (mask & target).sum(2), mask.sum(2) + target.sum(2)
    return float(np.where(total == 0, 1.0, overlap / (0.5 * total + 1e-7)).mean())


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "accuracy_at_logit_half": accuracy_at_logit_half,
    "balanced_accuracy": balanced_accuracy,
    "balanced_accuracy_at_logit_half": balanced_accuracy_at_logit_half,
    "macro_f1": macro_f1,
    "auroc": auroc,
    "auroc_present": auroc_present,
    "auprc": auprc,
    "auprc_present": auprc_present,
    "dice": dice,
}
# Metrics of the model's outputs before they become probabilities. Source: Global Layers, Tables 15 and 17. A softmax
# changes the order of samples within a class: on Covertype it raises the area of a class by several points.
OF_OUTPUTS: dict[str, Metric] = {
    "auroc_of_outputs_present": auroc_present,
    "auroc_of_outputs_absent_half": auroc_absent_half,
    "auprc_of_outputs_present": auprc_present,
    "auprc_of_outputs_absent_zero": auprc_absent_zero,
}


def check(name: str) -> None:
    """Raise :class:`SpecError` with the nearest known name for an unknown metric."""
    known = [*METRICS, *OF_OUTPUTS, LOSS]
    if name not in known:
        raise SpecError(f"unknown metric {name!r}: {nearest(name, known)}")


def measured(name: str, output: Array, p: Array, y: Array) -> float | None:
    """Return the metric ``name`` of outputs and their probabilities; None if a value that it reads is not finite."""
    metric, read = (OF_OUTPUTS[name], output) if name in OF_OUTPUTS else (METRICS[name], p)
    return metric(read, y) if np.isfinite(read).all() else None


def _share_right(guess: Array, y: Array) -> float:
    return float((guess == y).mean())


def _mean_recall(guess: Array, y: Array) -> float:
    return float(np.mean([(guess[y == label] == label).mean() for label in np.unique(y)]))


def _mean(values: list[float | None]) -> float | None:
    """Return the mean; None if a value is undefined, or if there is none."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined and len(defined) == len(values) else None


def _roc_areas(p: Array, y: Array) -> list[float | None]:
    """Return the area of every class against the rest; None for a class of no sample, or of every sample."""
    from sklearn.metrics import roc_auc_score  # takes a second to import, and few metrics need it

    return [float(roc_auc_score(own, score)) if 0 < own.sum() < len(own) else None for own, score in _columns(p, y)]


def _average_precisions(p: Array, y: Array) -> list[float | None]:
    """Return the average precision of every class; None for a class that does not occur."""
    from sklearn.metrics import average_precision_score

    return [float(average_precision_score(own, score)) if own.any() else None for own, score in _columns(p, y)]


def _columns(p: Array, y: Array) -> list[tuple[Array, Array]]:
    """Return, for every column of ``p``, whether each sample belongs to its class (n,), and the column (n,)."""
    first = 1 if p.shape[1] == 1 else 0
    return [(y == first + column, p[:, column]) for column in range(p.shape[1])]
