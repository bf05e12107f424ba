"""Scores of personal models on test samples. Nothing is selected by them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bench import metrics
from bench.train.mapping.mapper import Grid
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.task import outputs
from bench.types import Split

Values = list[list[float | None]]  # of all runs, [setting][seed]; None where a metric is undefined
Scores = dict[tuple[int, int, str], Values]  # by (model, client, metric)
Pairs = dict[int, int]  # models tested in one pass, each with the client whose samples it is tested on


def scores(rounds: Rounds, personal: Grid) -> Scores:
    """Return the metrics of each client's own model, or of all models on all clients (cross-client evaluation)."""
    every_pair = rounds.run_batch.algorithm.cross_evaluate
    return _scores(rounds, personal, _all_pairs if every_pair else _own_pairs)


def curve_point(rounds: Rounds, personal: Grid) -> Tensor:
    """Return the metrics of each client's own model, (metrics, H, S, clients), NaN where undefined."""
    federation, sizes = rounds.run_batch.federation, rounds.run_batch.sizes
    shape = (len(federation.metrics), sizes["H"], sizes["S"], len(federation.clients))
    point = torch.full(shape, torch.nan, dtype=torch.float64)
    for (_, client, name), values in _scores(rounds, personal, _own_pairs).items():
        numbers = [[math.nan if value is None else value for value in row] for row in values]
        point[federation.metrics.index(name), :, :, client] = torch.tensor(numbers, dtype=torch.float64)
    return point


def _scores(rounds: Rounds, personal: Grid, passes: Callable[[RunBatch, list[int]], list[Pairs]]) -> Scores:
    run_batch = rounds.run_batch
    tests = [
        {c: client.test for c, client in enumerate(federation.clients) if client.test is not None}
        for federation in run_batch.data.federations
    ]
    found: Scores = {}
    for pairs in passes(run_batch, list(tests[0])):
        inputs: dict[tuple[int, ...], Tensor] = {
            (s, model): own[client].x for s, own in enumerate(tests) for model, client in pairs.items()
        }
        results = rounds.outputs(personal, inputs)
        for model, client in pairs.items():
            by_seed = [_measured(run_batch, results[s, model], own[client]) for s, own in enumerate(tests)]
            for name in run_batch.federation.metrics:
                columns = [measured[name] for measured in by_seed]
                found[model, client, name] = [list(values) for values in zip(*columns, strict=True)]
    return found


def _own_pairs(run_batch: RunBatch, tested: list[int]) -> list[Pairs]:
    if run_batch.algorithm.pooled:
        return [{0: client} for client in tested]
    return [dict(zip(tested, tested, strict=True))] if tested else []


def _all_pairs(run_batch: RunBatch, tested: list[int]) -> list[Pairs]:
    """Pair every model with every client that has the same model (inputs and classes)."""
    models = run_batch.models
    return [{other: client for other, model in enumerate(models) if model is models[client]} for client in tested]


def _measured(run_batch: RunBatch, output: Tensor, test: Split) -> dict[str, list[float | None]]:
    """Return all metrics of one seed's outputs (H, n, k) for the test samples, one value per setting."""
    federation = run_batch.federation
    p = outputs.probabilities(federation, run_batch.output, output.flatten(0, 1)).reshape(output.shape).numpy()
    y = test.y.numpy() if federation.task == "segmentation" else test.y.reshape(-1).to(torch.int64).numpy()

    def value(name: str, h: int) -> float | None:
        if name == metrics.LOSS:
            found: float | None = run_batch.criterion(output[h], test.y).mean().item()
        else:
            found = metrics.measured(name, output[h].numpy(), p[h], y)
        return found if found is not None and math.isfinite(found) else None

    return {name: [value(name, h) for h in range(len(output))] for name in federation.metrics}
