from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import fairness
from bench.types import SilobenchError

scores = st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=15)


def test_variance_by_hand():
    # Mean .7, squares .04 + .01 + .01 + .04 over four clients; with n - 1 it would be .0333.
    assert fairness.variance([0.5, 0.6, 0.8, 0.9]).value == pytest.approx(0.025)


def test_equal_clients_are_perfectly_fair():
    assert fairness.variance([0.1, 0.1, 0.1]) == fairness.OverClients(0.0, 3, 0)


@given(scores)
def test_variance_leaves_out_undefined_clients_and_counts_them(scores):
    kept = [score for score in scores if score is not None]
    if len(kept) < 2:
        with pytest.raises(SilobenchError, match=f"{len(kept)} of {len(scores)} have one"):
            fairness.variance(scores)
        return
    found = fairness.variance(scores)
    assert found.value == pytest.approx(np.var(kept), abs=1e-12)
    assert (found.clients, found.left_out) == (len(kept), len(scores) - len(kept))


def test_participation_by_hand():
    local, fedavg = [0.5, 0.6, 0.7, 0.8, 0.9], [0.6, 0.5, 0.7, 0.9, 0.8]
    # Above both; above local only; level with both; above both; above FedAvg only.
    found = fairness.participation([0.61, 0.55, 0.7, 0.95, 0.85], local, fedavg)
    assert found == fairness.OverClients(0.4, 5, 0)


def test_local_training_and_fedavg_never_beat_themselves():
    local, fedavg = [0.5, 0.6, 0.7], [0.6, 0.5, 0.7]
    assert fairness.participation(local, local, fedavg).value == 0.0
    assert fairness.participation(fedavg, local, fedavg).value == 0.0


def test_participation_leaves_out_clients_without_all_three_scores():
    found = fairness.participation([0.9, None, 0.9, 0.9], [0.5, 0.5, None, 0.5], [0.5, 0.5, 0.5, 0.95])
    assert found == fairness.OverClients(0.5, 2, 2)
    with pytest.raises(SilobenchError, match="there is none"):
        fairness.participation([None], [0.5], [0.5])


def test_participation_needs_the_same_clients():
    with pytest.raises(SilobenchError, match="found 2 of the method, 1 of local training and 2 of FedAvg"):
        fairness.participation([0.1, 0.2], [0.1], [0.1, 0.2])


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=15))
def test_participation_is_a_share_of_clients_that_only_their_order_decides(clients):
    found = fairness.participation(*zip(*clients, strict=True))
    assert round(found.value * len(clients), 9).is_integer()
    stretched = [[score**3 - 7 for score in client] for client in clients]
    assert fairness.participation(*zip(*stretched, strict=True)) == found


def test_medians_of_clients_over_runs():
    runs = [[0.1, 0.9, None], [0.2, None, None], [0.6, 0.7, None]]
    assert fairness.medians(runs) == [0.2, pytest.approx(0.8), None]


def test_medians_refuse_a_missing_run_and_other_clients():
    with pytest.raises(SilobenchError, match="1 of 2 are missing"):
        fairness.medians([[0.1], None])
    with pytest.raises(SilobenchError, match="0 of 0"):
        fairness.medians([])
    with pytest.raises(SilobenchError, match=r"\[1, 2\]"):
        fairness.medians([[0.1], [0.1, 0.2]])
