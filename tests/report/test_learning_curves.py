from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import learning_curves
from bench.types import SilobenchError, SpecError

CURVE = {
    "rounds": [2, 4, 6, 7],
    "scores": {"accuracy": [[0.5, 0.7], [0.9, 0.7], [0.6, 1.0], [0.7, 0.7]], "auc": [[None, 0.5]] * 4},
}
# After every round; the lowest of all, after round 5, belongs to no point of the curve.
LOSSES = [0.9, 0.8, 0.7, 0.5, 0.1, 0.6, 0.4]


def test_bmcta_is_the_best_mean_over_clients_and_says_it_is_an_oracle():
    best = learning_curves.bmcta(CURVE)
    assert best == learning_curves.BestRound("best-test (oracle)", 4, pytest.approx(0.8), (0.9, 0.7))


def test_its_twin_is_picked_by_validation_among_the_tested_rounds():
    chosen = learning_curves.validated(CURVE, LOSSES)
    assert chosen == learning_curves.BestRound("best-val", 7, pytest.approx(0.7), (0.7, 0.7))


def test_scores_never_move_the_twin():
    other = {"rounds": CURVE["rounds"], "scores": {"accuracy": [[0.0, 0.1], [0.1, 0.0], [0.2, 0.3], [0.0, 0.0]]}}
    assert learning_curves.validated(other, LOSSES).round == learning_curves.validated(CURVE, LOSSES).round


def test_the_first_of_equally_good_rounds_counts():
    curve = {"rounds": [1, 2, 3], "scores": {"accuracy": [[0.1], [0.3], [0.3]]}}
    assert learning_curves.bmcta(curve).round == 2
    assert learning_curves.validated(curve, [0.5, 0.5, 0.5]).round == 1


def test_a_client_undefined_after_one_round_is_left_out_of_all():
    curve = {"rounds": [1, 2], "scores": {"auc": [[0.9, 0.5, 0.4], [None, 0.6, 0.5]]}}
    best = learning_curves.bmcta(curve, "auc")
    assert (best.round, best.mean, best.left_out) == (2, pytest.approx(0.55), 1)
    assert best.scores == (None, 0.6, 0.5)
    assert learning_curves.means(curve, "auc") == pytest.approx([0.45, 0.55])


def test_pooled_means_count_samples():
    assert learning_curves.means(CURVE, "accuracy", sizes=[30, 10])[0] == pytest.approx(0.55)
    assert learning_curves.means(CURVE, "auc", sizes=[30, 10]) == [0.5] * 4


points = st.lists(st.lists(st.none() | st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=6)


@given(points, st.lists(st.floats(0, 5), min_size=6, max_size=6))
def test_the_oracle_is_never_below_its_twin_and_both_lie_in_the_range_of_scores(rows, losses):
    curve = {"rounds": list(range(1, len(rows) + 1)), "scores": {"accuracy": rows}}
    if all(None in column for column in zip(*rows, strict=True)):
        with pytest.raises(SilobenchError, match="undefined on every client"):
            learning_curves.bmcta(curve)
        return
    oracle, twin = learning_curves.bmcta(curve), learning_curves.validated(curve, losses)
    assert oracle.mean >= twin.mean
    for best in (oracle, twin):
        kept = [score for score in best.scores if score is not None]
        assert min(kept) <= best.mean <= max(kept)


def test_rounds_without_a_loss_are_never_picked():
    assert learning_curves.validated(CURVE, [None, 0.3, None, None, None, None, None]).round == 2
    with pytest.raises(SilobenchError, match="no tested round has a validation loss"):
        learning_curves.validated(CURVE, [None] * 7)


@pytest.mark.parametrize(
    ("curve", "losses", "message"),
    [
        ({}, LOSSES, "set test_every"),
        (CURVE, LOSSES[:6], "tested after round 7, but there are losses of rounds 1 to 6"),
        ({"rounds": [0], "scores": {"accuracy": [[0.5]]}}, LOSSES, "tested after round 0"),
        ({"rounds": [1, 2], "scores": {"accuracy": [[0.5]]}}, LOSSES, "each of 2 rounds"),
        ({"rounds": [1, 2], "scores": {"accuracy": [[0.5], [0.5, 0.6]]}}, LOSSES, r"found rows of \[1, 2\]"),
        ({"rounds": [], "scores": {"accuracy": []}}, LOSSES, "found rows of"),
    ],
)
def test_what_is_no_curve_is_refused(curve, losses, message):
    with pytest.raises(SilobenchError, match=message):
        learning_curves.validated(curve, losses)


def test_an_unknown_metric_is_named():
    with pytest.raises(SpecError, match="did you mean 'accuracy'"):
        learning_curves.bmcta(CURVE, "acuracy")
