"""Personal models meet test samples here and nowhere else; nothing is chosen by what is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bench import metrics
from bench.train.task import outputs
from bench.types import Split

if TYPE_CHECKING:
    from bench.train.mapper import Grid
    from bench.train.rounds import Rounds
    from bench.train.run_batch import RunBatch

Values = list[list[float | None]]  # of all runs, [h][s]; None where a metric is undefined
Found = dict[tuple[int, int, str], Values]  # by (model, client, metric)
Pass = dict[int, int]  # models tested at once, each with the client whose samples it is tested on


def scores(rounds: Rounds, personal: Grid) -> Found:
    """Metrics of each client's own model, or of all models on all clients where the algorithm is tested so."""
    return _scores(rounds, personal, _everywhere if rounds.run_batch.algorithm.cross_evaluate else _own)


def curve_point(rounds: Rounds, personal: Grid) -> Tensor:
    """Metrics of each client's own model as one tensor (metrics, H, S, clients), NaN where undefined."""
    federation, sizes = rounds.run_batch.federation, rounds.run_batch.sizes
    shape = (len(federation.metrics), sizes["H"], sizes["S"], len(federation.clients))
    point = torch.full(shape, torch.nan, dtype=torch.float64)
    for (_, client, name), values in _scores(rounds, personal, _own).items():
        numbers = [[math.nan if value is None else value for value in row] for row in values]
        point[federation.metrics.index(name), :, :, client] = torch.tensor(numbers, dtype=torch.float64)
    return point


def _scores(rounds: Rounds, personal: Grid, passes: Callable[[RunBatch, list[int]], list[Pass]]) -> Found:
    run_batch = rounds.run_batch
    tests = [
        {c: client.test for c, client in enumerate(federation.clients) if client.test is not None}
        for federation in run_batch.federations
    ]
    found: Found = {}
    for pass_ in passes(run_batch, list(tests[0])):
        inputs: dict[tuple[int, ...], Tensor] = {
            (s, model): own[client].x for s, own in enumerate(tests) for model, client in pass_.items()
        }
        outputs = rounds.outputs(personal, inputs)
        for model, client in pass_.items():
            of_seeds = [_measured(run_batch, outputs[s, model], own[client]) for s, own in enumerate(tests)]
            for name in run_batch.federation.metrics:
                columns = [measured[name] for measured in of_seeds]
                found[model, client, name] = [list(values) for values in zip(*columns, strict=True)]
    return found


def _own(run_batch: RunBatch, tested: list[int]) -> list[Pass]:
    if run_batch.algorithm.pooled:
        return [{0: client} for client in tested]
    return [dict(zip(tested, tested, strict=True))] if tested else []


def _everywhere(run_batch: RunBatch, tested: list[int]) -> list[Pass]:
    """Every model on every client whose inputs it takes and whose classes it knows."""
    models = run_batch.models
    return [{other: client for other, model in enumerate(models) if model is models[client]} for client in tested]


def _measured(run_batch: RunBatch, output: Tensor, test: Split) -> dict[str, list[float | None]]:
    """All metrics of one seed's outputs (H, n, k) for the test samples, by setting."""
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
