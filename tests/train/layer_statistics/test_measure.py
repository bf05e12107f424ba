"""Layer statistics of the last round: equal to statistics of each client's weights, and computed only if asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.algorithms.layers import trained_weights
from bench.models.functional import Model
from bench.train import engine
from bench.train.layer_statistics import statistics
from bench.types import Budget, SpecError
from tests.reference import models
from tests.train.toy import federation

BUDGET = Budget(rounds=2, local_epochs=1, batch_size=5, evaluate="trained")


def run(**options: Any) -> engine.TrainedRuns:
    return engine.run(
        federation(), algorithm="player_fl", algorithm_options=options, model=models.deep(), settings=[{"lr": 0.05}],
        seeds=[3], budget=BUDGET,
    )  # fmt: skip


def test_layers_of_every_client_by_hand() -> None:
    found = run(layers=0, probe="all")
    traces, model = found.outcomes[0].traces, Model(models.deep())
    assert set(traces) == {
        "sensitivity",
        "federation_sensitivity",
        "gradient_variance",
        "hessian_trace",
        "dissimilarity",
    }
    weights, run_batch = [], found.personal(0, 0, "latest")[0].run_batch
    for client in range(3):
        w = found.personal(0, client, "latest")[1]["w"]
        weights.append(w)
        rows = run_batch.work(1).of([0], torch.tensor([client])).batches()[0]  # the first mini-batch of the last round
        x, y = run_batch.data.samples[0, client][rows]

        def loss(w: torch.Tensor, x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            return torch.nn.functional.binary_cross_entropy(model(w, x).output, y)

        [by_client] = traces["federation_sensitivity"]
        assert by_client[client] == pytest.approx(statistics.sensitivity(model, loss, w).tolist(), rel=1e-4)
        [by_client] = traces["gradient_variance"]
        assert by_client[client] == pytest.approx(statistics.gradient_variance(model, loss, w).tolist(), rel=1e-4)
        [by_client] = traces["hessian_trace"]
        exact = torch.autograd.functional.hessian(loss, w).diagonal()
        estimate = statistics.hessian_trace(model, loss, w, probes=10, key=3)
        assert by_client[client] == pytest.approx(
            (estimate.value / trained_weights(model)).tolist(), rel=1e-3, abs=1e-6
        )
        assert torch.all((estimate.value - model.layer_sums(exact)).abs() <= 4 * estimate.error + 1e-5)
    [by_client] = traces["dissimilarity"]
    few = [run_batch.data.splits[0][0, client][:10] for client in range(3)]
    x = torch.cat([run_batch.data.samples[0, client][rows][0] for client, rows in enumerate(few)])
    between = statistics.similarities(model, weights, x, statistics.angular_procrustes)
    expected = [[(between[layer, c].sum() - between[layer, c, c]) / 2 for layer in range(3)] for c in range(3)]
    torch.testing.assert_close(torch.tensor(by_client), torch.tensor(expected))


def test_clients_with_the_same_weights_have_distance_zero() -> None:
    aggregated = Budget(rounds=1, local_epochs=1, batch_size=5)
    found = engine.run(
        federation(), algorithm="player_fl", algorithm_options={"layers": 3, "probe": "all"}, model=models.deep(),
        settings=[{"lr": 0.05}], seeds=[3], budget=aggregated,
    )  # fmt: skip
    [by_client] = found.outcomes[0].traces["dissimilarity"]
    assert torch.tensor(by_client).abs().max() < 1e-3


def test_no_statistics_are_computed_unless_asked_for() -> None:
    assert set(run(layers=0).outcomes[0].traces) == {"sensitivity"}
    assert "dissimilarity" not in run(layers=0, probe="gradients").outcomes[0].traces


def test_layer_statistics_change_nothing_else() -> None:
    with_, without = run(layers=1, probe="all").outcomes[0], run(layers=1).outcomes[0]
    assert with_.validation == without.validation
    assert with_.scores == without.scores


def test_unknown_probe_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="probe = 'gradient': did you mean 'gradients'"):
        run(probe="gradient")
