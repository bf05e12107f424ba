"""Metrics of a model's probabilities on one client; None where a metric is undefined there.

``p`` is the probability of class 1 (n, 1) of a binary task, or of every class (n, k); ``y`` (n,) are class numbers.
Metrics that are averaged over classes come in variants that differ in what a class counts of which the client has no
samples. The metric ``loss`` is the task's training loss, see :mod:`bench.train.evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bench.types import SpecError, nearest

Array = np.ndarray
Metric = Callable[[Array, Array], float | None]
# The mean over test samples of what training minimises, class weights included; lower is better. PLayer-FL's Table A.10
# is 100 times this, but for the short last batch, which counts there as much as a full one.
LOSS = "loss"
LOGIT_HALF = 1 / (1 + math.exp(-0.5))  # the probability of a logit of 0.5: 0.622


def predicted(p: Array) -> Array:
    """Class numbers (n,) from the probability of class 1 (n, 1) at > 0.5, or of every class (n, k)."""
    return (p[:, 0] > 0.5).astype(np.int64) if p.shape[1] == 1 else p.argmax(1)


def predicted_at_logit_half(p: Array) -> Array:
    """As :func:`predicted`, but class 1 from a logit of 0.5 on, where a probability was meant.

    Source: the released code of Global Layers (heart cohorts) and of FENDA-FL (GEMINI) compares logits with 0.5.
    """
    return (p[:, 0] >= np.float32(LOGIT_HALF)).astype(np.int64) if p.shape[1] == 1 else p.argmax(1)


def accuracy(p: Array, y: Array) -> float:
    """Share of samples whose class is predicted."""
    return _share_right(predicted(p), y)


def accuracy_at_logit_half(p: Array, y: Array) -> float:
    """:func:`accuracy` of :func:`predicted_at_logit_half`, as FENDA-FL's Tables 3 and 4 were made."""
    return _share_right(predicted_at_logit_half(p), y)


def balanced_accuracy(p: Array, y: Array) -> float:
    """Mean recall over the classes that the client has; Global Layers calls it accuracy on Covertype (Table 16)."""
    return _mean_recall(predicted(p), y)


def balanced_accuracy_at_logit_half(p: Array, y: Array) -> float:
    """:func:`balanced_accuracy` of :func:`predicted_at_logit_half`, as the hearts of Global Layers' Table 16."""
    return _mean_recall(predicted_at_logit_half(p), y)


def macro_f1(p: Array, y: Array) -> float:
    """2 TP / (2 TP + FP + FN), mean over the classes that the client has or the model predicts (PLayer-FL, Table 1)."""
    guess = predicted(p)
    labels = np.union1d(guess, y)
    right = [((guess == label) & (y == label)).sum() for label in labels]
    either = [(guess == label).sum() + (y == label).sum() for label in labels]
    return float(np.mean(2 * np.array(right) / np.array(either)))


def auroc(p: Array, y: Array) -> float | None:
    """Area under the ROC curve, one against rest averaged over classes; undefined unless every class is there."""
    return _mean(_roc_areas(p, y))


def auroc_present(p: Array, y: Array) -> float | None:
    """:func:`auroc` over the classes for which it is defined; undefined where there is none."""
    return _mean([area for area in _roc_areas(p, y) if area is not None])


def auroc_absent_half(p: Array, y: Array) -> float | None:
    """:func:`auroc` with 0.5 for a class that no sample, or every sample, is of."""
    return _mean([0.5 if area is None else area for area in _roc_areas(p, y)])


def auprc(p: Array, y: Array) -> float | None:
    """Average precision (steps, no interpolation) averaged over classes; undefined unless every class is there.

    Of a binary task it is that of class 1 alone.
    """
    return _mean(_average_precisions(p, y))


def auprc_present(p: Array, y: Array) -> float | None:
    """:func:`auprc` over the classes that are there; undefined where there is none."""
    return _mean([area for area in _average_precisions(p, y) if area is not None])


def auprc_absent_zero(p: Array, y: Array) -> float | None:
    """:func:`auprc` with 0 for a class that is not there."""
    return _mean([0.0 if area is None else area for area in _average_precisions(p, y)])


def dice(p: Array, y: Array) -> float:
    """Mean over samples and channels of |P Y| / (0.5 (|P| + |Y|)) of masks at > 0.5; 1 where both are empty.

    FENDA-FL, appendix A.2; ``p`` and ``y`` are (n, channels, ...).
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
# Of the model's outputs before they become probabilities, as Global Layers' Tables 15 and 17 were made. A softmax puts
# samples in another order within a class: on Covertype it raises a class's area by several points.
OF_OUTPUTS: dict[str, Metric] = {
    "auroc_of_outputs_present": auroc_present,
    "auroc_of_outputs_absent_half": auroc_absent_half,
    "auprc_of_outputs_present": auprc_present,
    "auprc_of_outputs_absent_zero": auprc_absent_zero,
}


def check(name: str) -> None:
    """Raise :class:`SpecError` naming the nearest known metric unless ``name`` is one."""
    known = [*METRICS, *OF_OUTPUTS, LOSS]
    if name not in known:
        raise SpecError(f"unknown metric {name!r}: {nearest(name, known)}")


def measured(name: str, output: Array, p: Array, y: Array) -> float | None:
    """The metric ``name`` of outputs and the probabilities they mean; None where one that it reads is not finite."""
    metric, read = (OF_OUTPUTS[name], output) if name in OF_OUTPUTS else (METRICS[name], p)
    return metric(read, y) if np.isfinite(read).all() else None


def _share_right(guess: Array, y: Array) -> float:
    return float((guess == y).mean())


def _mean_recall(guess: Array, y: Array) -> float:
    return float(np.mean([(guess[y == label] == label).mean() for label in np.unique(y)]))


def _mean(values: list[float | None]) -> float | None:
    """None where a value is undefined, or where there is none."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined and len(defined) == len(values) else None


def _roc_areas(p: Array, y: Array) -> list[float | None]:
    """The area of every class against the rest; None for one that no sample, or every sample, is of."""
    from sklearn.metrics import roc_auc_score  # takes a second to import, and few tasks are scored by it

    return [float(roc_auc_score(own, score)) if 0 < own.sum() < len(own) else None for own, score in _columns(p, y)]


def _average_precisions(p: Array, y: Array) -> list[float | None]:
    """The average precision of every class; None for one that is not there."""
    from sklearn.metrics import average_precision_score

    return [float(average_precision_score(own, score)) if own.any() else None for own, score in _columns(p, y)]


def _columns(p: Array, y: Array) -> list[tuple[Array, Array]]:
    """For every column of ``p``: which samples are of its class (n,), and the column (n,)."""
    first = 1 if p.shape[1] == 1 else 0
    return [(y == first + column, p[:, column]) for column in range(p.shape[1])]
