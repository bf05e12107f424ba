"""Metrics compared with values by hand and scikit-learn, and metrics that are undefined."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from bench import metrics
from bench.metrics import accuracy, auroc, balanced_accuracy, macro_f1, predicted
from bench.train import engine
from bench.train.task import losses
from bench.types import Budget, SpecError
from tests.train.toy import federation


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


def test_balanced_accuracy_is_over_the_classes_that_occur() -> None:
    generator = np.random.default_rng(0)
    p, y = generator.dirichlet(np.ones(4), 60), generator.integers(0, 3, 60)
    mine = np.where(predicted(p) == 3, 0, predicted(p))  # scikit-learn warns about predicted classes without samples
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
def test_auroc_is_undefined_unless_every_class_occurs(p: np.ndarray, y: list[int]) -> None:
    assert auroc(p, np.array(y)) is None


# Four classes, of which the client has 0, 1 and 3; every sample of class 3 scores highest there.
P = np.array([[0.4, 0.3, 0.2, 0.1], [0.3, 0.4, 0.2, 0.1], [0.5, 0.2, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])
Y = np.array([0, 1, 1, 3])


def test_absent_classes_count_a_half_or_nothing() -> None:
    # Class 0: beaten by one of three; class 1: three of four pairs in order; class 3: all in order.
    areas = [2 / 3, 3 / 4, 1.0]
    assert auroc(P, Y) is None
    assert metrics.auroc_present(P, Y) == pytest.approx(np.mean(areas))
    assert metrics.auroc_absent_half(P, Y) == pytest.approx((sum(areas) + 0.5) / 4)
    # Global Layers: present = (7 A - 0.5 (7 - k)) / k, here with 4 outputs and k = 3 classes that occur.
    assert metrics.auroc_present(P, Y) == pytest.approx((4 * metrics.auroc_absent_half(P, Y) - 0.5) / 3)


def test_precision_of_absent_classes_counts_nothing_or_is_left_out() -> None:
    # Class 0 comes second: 1/2. Class 1: first, then third: (1 + 2/3) / 2. Class 3 comes first.
    areas = [1 / 2, 5 / 6, 1.0]
    assert metrics.auprc(P, Y) is None
    assert metrics.auprc_present(P, Y) == pytest.approx(np.mean(areas))
    assert metrics.auprc_absent_zero(P, Y) == pytest.approx(sum(areas) / 4)


def test_area_under_precision_and_recall_counts_steps() -> None:
    # Positives rank first and third: precision 1 and 2/3, each for half of the recall.
    assert metrics.auprc(column(0.9, 0.7, 0.4, 0.2), np.array([1, 0, 1, 0])) == pytest.approx(5 / 6)


@pytest.mark.parametrize(("y", "half", "zero"), [([1, 1], 0.5, 1.0), ([0, 0], 0.5, 0.0)])
def test_a_binary_client_with_one_class(y: Any, half: float, zero: float) -> None:
    p, y = column(0.2, 0.9), np.array(y)
    assert (auroc(p, y), metrics.auroc_present(p, y), metrics.auroc_absent_half(p, y)) == (None, None, half)
    assert metrics.auprc_absent_zero(p, y) == zero
    assert metrics.auprc(p, y) == metrics.auprc_present(p, y) == (1.0 if zero else None)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(1, 6), n=st.integers(1, 40))
def test_metrics_are_those_of_scikit_learn(seed: int, classes: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    if classes == 1:
        p, y = generator.random((n, 1)).round(1), generator.integers(0, 2, n)
        columns, targets = [p[:, 0]], [y == 1]
    else:
        p, y = generator.dirichlet(np.ones(classes), n).round(2), generator.integers(0, classes, n)
        columns, targets = list(p.T), [y == k for k in range(classes)]
    f1 = sklearn_metrics.f1_score(y, predicted(p), average="macro", zero_division=0)
    assert macro_f1(p, y) == pytest.approx(f1)
    pairs = list(zip(targets, columns, strict=True))
    roc = [sklearn_metrics.roc_auc_score(t, c) for t, c in pairs if 0 < t.sum() < n]
    precision = [sklearn_metrics.average_precision_score(t, c) for t, c in pairs if t.any()]
    missing = len(pairs) - len(roc)
    assert metrics.auroc_present(p, y) == (pytest.approx(np.mean(roc)) if roc else None)
    assert auroc(p, y) == (None if missing else metrics.auroc_present(p, y))
    assert metrics.auroc_absent_half(p, y) == pytest.approx((sum(roc) + 0.5 * missing) / len(pairs))
    assert metrics.auprc_present(p, y) == (pytest.approx(np.mean(precision)) if precision else None)
    assert metrics.auprc_absent_zero(p, y) == pytest.approx(sum(precision) / len(pairs))
    for name, measure in metrics.METRICS.items():
        value = None if name == "dice" else measure(p, y)
        assert value is None or 0 <= value <= 1 + 1e-12


def test_macro_f1_by_hand() -> None:
    # Class 0: one hit, one miss; class 1 is only predicted; class 2: one hit, and one predicted as 1.
    p = np.eye(4)[[0, 1, 2, 1]]
    assert macro_f1(p, np.array([0, 0, 2, 2])) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    # Class 3 neither occurs nor is predicted, and does not count.
    assert macro_f1(np.eye(4)[[0, 1]], np.array([0, 1])) == 1.0


def test_a_logit_of_a_half_is_a_probability_of_0_622() -> None:
    logits = torch.tensor([[0.4999], [0.5], [0.2], [-1.0]])
    p, y = torch.sigmoid(logits).numpy(), np.array([1, 1, 1, 0])
    assert metrics.predicted_at_logit_half(p).tolist() == [0, 1, 0, 0]
    assert predicted(p).tolist() == [1, 1, 1, 0]
    assert metrics.accuracy_at_logit_half(p, y) == 0.5
    assert metrics.balanced_accuracy_at_logit_half(p, y) == pytest.approx((1 / 3 + 1) / 2)
    several = np.array([[0.4, 0.35, 0.25]])
    assert metrics.predicted_at_logit_half(several).tolist() == [0]


def test_areas_of_outputs_are_not_those_of_probabilities() -> None:
    # A softmax uses the other outputs of a sample, too: here it reverses the order of class 0.
    output, y = np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([0, 1])
    p = torch.softmax(torch.from_numpy(output), 1).numpy()
    assert metrics.measured("auroc_of_outputs_present", output, p, y) == 0.5  # 1 for class 0, 0 for class 1
    assert metrics.measured("auroc_present", output, p, y) == 0.0
    assert metrics.measured("auprc_of_outputs_absent_zero", output, p, y) == 0.75
    assert metrics.measured("auroc_of_outputs_absent_half", np.full((2, 2), np.nan), p, y) is None


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_the_loss_of_test_samples_is_a_metric(kind: str) -> None:
    weighted = {"name": "focal", "gamma": 2.0, "alpha": [1.0, 2.0, 3.0]} if kind == "multiclass" else {}
    fed = dataclasses.replace(federation(kind), metrics=("accuracy", "loss"), loss=weighted)
    model = torch.nn.Linear(13, 1 if kind == "binary" else 3)
    trained = engine.run(fed, algorithm="local", model=model, settings=[{"lr": 0.1}, {"lr": 0.2}], seeds=[0],
                         budget=Budget(2, local_steps=1, batch_size=4))  # fmt: skip
    criterion = losses.criterion(fed, "logit")
    for run, outcome in enumerate(trained.outcomes):
        found = {(rule, m, c): v for rule, m, c, name, v in outcome.scores if name == "loss"}
        assert len(found) == 9 * len({rule for rule, _, _ in found})
        for c, client in enumerate(fed.clients):
            rounds, personal = trained.personal(run, c, "latest")
            with torch.no_grad():
                output = rounds.run_batch.models[c](personal["w"], client.test.x).output
            assert found["latest", c, c] == pytest.approx(criterion(output, client.test.y).mean().item(), rel=1e-5)


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown metric 'acuracy': did you mean 'accuracy'"):
        metrics.check("acuracy")
    for known in ("macro_f1", "loss", "auroc_of_outputs_present"):
        metrics.check(known)
