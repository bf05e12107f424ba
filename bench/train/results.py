"""Outcomes of trained runs as plain numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bench.train import evaluate
from bench.train.layer_statistics.measure import measure
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.state import Trained
from bench.types import Outcome


def collect_outcomes(rounds: Rounds, trained: Trained) -> list[Outcome]:
    """Test the checkpoints and return an :class:`Outcome` for every run, in settings-major order."""
    run_batch = rounds.run_batch
    tested = {rule: evaluate.scores(rounds, personal) for rule, personal in trained.checkpoints.items()}
    validation, aggregated = trained.validation, rounds.validation.aggregated(trained.validation)
    untuned = None if trained.untuned is None else rounds.validation.aggregated(trained.untuned)
    communication = {way: total / len(trained.losses) for way, total in trained.communication.items()}
    parameters = tuple(run_batch.algorithm.parameters(model) for model in run_batch.models)
    outcomes = []
    for h, s in rounds.mapper.indices("HS"):
        diverged = trained.diverged.get((h, s))
        scores = tuple(
            (rule, model, client, name, None if diverged else values[h][s])
            for rule, by_pair in tested.items()
            for (model, client, name), values in by_pair.items()
        )
        outcomes.append(
            Outcome(
                hyperparameters=run_batch.settings[h],
                seed=run_batch.seeds[s],
                status="diverged" if diverged else "finished",
                diverged=diverged,
                scores=scores,
                validation=tuple(_numbers(losses) for losses in validation[:, h, s]),
                aggregated=_numbers(aggregated[:, h, s]),
                communication={way: _count(floats[h, s].item()) for way, floats in communication.items()},
                client_parameters=parameters,
                path=rounds.mapper.path,
                curves=_curves(run_batch, trained, h, s),
                traces=_traces(rounds, trained, h, s),
                untuned=None if untuned is None else _plain(untuned[h, s].item()),
            )
        )
    return outcomes


def as_plain(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as containers that JSON can hold."""
    return dataclasses.asdict(outcome)


def from_plain(found: Mapping[str, Any]) -> Outcome:
    """Return the outcome from what :func:`as_plain` returned, after JSON turned its tuples into lists."""
    lists = {name: tuple(map(tuple, found[name])) for name in ("scores", "validation")}
    flat = {name: tuple(found[name]) for name in ("aggregated", "client_parameters")}
    return Outcome(**{**found, **lists, **flat})


def _traces(rounds: Rounds, trained: Trained, h: int, s: int) -> dict[str, Any]:
    """Return the traced quantities of all rounds of one run, and the layer statistics of its last round."""
    traced = {name: [_plain(each[h, s].tolist()) for each in values] for name, values in trained.traces.items()}
    analysis = rounds.run_batch.algorithm.layer_analysis()
    if analysis == "none" or (h, s) in trained.diverged:
        return traced
    found = measure(rounds, trained, h, s, similarity=analysis == "all")
    return traced | {name: _plain(each) for name, each in found.items()}


def _curves(run_batch: RunBatch, trained: Trained, h: int, s: int) -> dict[str, Any]:
    """Return the learning curves of one run; it has no scores from its first non-finite number on."""
    rounds = run_batch.budget.tested
    if not rounds:
        return {}
    good = trained.diverged[h, s]["round"] if (h, s) in trained.diverged else math.inf
    points = torch.stack(trained.curves)[:, :, h, s]  # (rounds, metrics, clients)
    points = torch.where((torch.tensor(rounds) <= good)[:, None, None], points, torch.nan)
    names = run_batch.federation.metrics
    return {"rounds": list(rounds), "scores": {name: _plain(points[:, m].tolist()) for m, name in enumerate(names)}}


def _count(value: float) -> float:
    return int(value) if value.is_integer() else value


def _plain(values: Any) -> Any:
    """Return nested lists of numbers with None for what is not finite."""
    if isinstance(values, list):
        return [_plain(each) for each in values]
    return values if math.isfinite(values) else None


def _numbers(values: Tensor) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values.tolist())
