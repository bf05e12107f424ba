"""Metrics by hand, and where a client's samples leave them undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from bench.train.metrics import accuracy, auroc, balanced_accuracy, metric, predicted
from bench.types import SpecError


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_binary_predictions_are_above_a_half() -> None:
    assert predicted(column(0.2, 0.5, 0.51)).tolist() == [0, 0, 1]


def test_multi_class_predictions_are_the_largest() -> None:
    assert predicted(np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])).tolist() == [1, 0]


def test_accuracy_by_hand() -> None:
    assert accuracy(column(0.9, 0.1, 0.6, 0.4), np.array([1, 0, 0, 1])) == 0.5
    assert accuracy(np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]), np.array([0, 2, 0])) == 2 / 3


def test_balanced_accuracy_by_hand() -> None:
    # Class 0: 3 of 4 right; class 1: 0 of 1.
    assert balanced_accuracy(column(0.1, 0.2, 0.3, 0.8, 0.4), np.array([0, 0, 0, 0, 1])) == 0.375


def test_balanced_accuracy_is_over_the_classes_that_are_there() -> None:
    generator = np.random.default_rng(0)
    p, y = generator.dirichlet(np.ones(4), 60), generator.integers(0, 3, 60)
    mine = np.where(predicted(p) == 3, 0, predicted(p))  # scikit-learn warns of predicted classes that are not there
    p = np.eye(4)[mine]
    assert balanced_accuracy(p, y) == pytest.approx(sklearn_metrics.balanced_accuracy_score(y, mine))
    assert balanced_accuracy(column(0.9, 0.1, 0.8), np.array([1, 1, 1])) == pytest.approx(2 / 3)


def test_auroc_counts_pairs() -> None:
    # Positives 0.8 and 0.4 against negatives 0.6 and 0.1: three of four pairs in order; ties count half.
    assert auroc(column(0.8, 0.4, 0.6, 0.1), np.array([1, 1, 0, 0])) == 0.75
    assert auroc(column(0.5, 0.5), np.array([1, 0])) == 0.5


def test_auroc_of_several_classes_is_the_mean_of_one_against_the_rest() -> None:
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.5, 0.2, 0.3]])
    y = np.array([0, 1, 2, 2])
    pairs = [auroc(p[:, [k]], (y == k).astype(int)) for k in range(3)]
    assert auroc(p, y) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(
    ("p", "y"), [(column(0.2, 0.9), [1, 1]), (column(0.2), [0]), (np.full((4, 3), 1 / 3), [0, 1, 1, 0])]
)
def test_auroc_is_undefined_unless_every_class_is_there(p: np.ndarray, y: list[int]) -> None:
    assert auroc(p, np.array(y)) is None


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown metric 'acuracy': did you mean 'accuracy'"):
        metric("acuracy")
