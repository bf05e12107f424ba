"""Scores of a record's clients, at a checkpoint or in a round of the learning curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from bench.report import learning_curves, statistics
from bench.types import CHECKPOINTS, SpecError

Record = Mapping[str, Any]
Weights = Literal["equal", "test_size"]

HEADINGS = {
    "latest": "Latest",
    "global": "Server (global)",
    "local": "Local",
    learning_curves.ORACLE: "Best test round (oracle)",
    learning_curves.VALIDATED: "Best validated round",
}
SHOWN = tuple(HEADINGS)
LOWER_IS_BETTER = frozenset({"loss"})


def sign(metric: str) -> Literal[1, -1]:
    """Return the factor by which a score is multiplied so that higher is better."""
    return -1 if metric in LOWER_IS_BETTER else 1


def bounds(metric: str) -> statistics.Bounds:
    """Return the least and the largest possible value of a metric: losses are not negative, others are shares."""
    return (0.0, math.inf) if metric in LOWER_IS_BETTER else (0.0, 1.0)


def client_scores(record: Record, metric: str, checkpoint: str, model: int | None = None) -> dict[int, float | None]:
    """Return scores by client, of each client's own model or of client ``model``'s for all; None where undefined.

    A pooled run has one model, which every client uses. Raise :class:`SpecError` if the record holds no such score.
    """
    if checkpoint not in CHECKPOINTS:
        return _along(record, metric, checkpoint, model)
    models = {scored for _, scored, _, _, _ in record["scores"]}
    if model is None and len(models) == 1:
        (model,) = models
    found = {
        client: value
        for rule, scored, client, name, value in record["scores"]
        if (rule, name) == (checkpoint, metric) and scored == (client if model is None else model)
    }
    if not found:
        have = sorted({f"{rule} {name}" for rule, _, _, name, _ in record["scores"]})
        whose = "each client's own model" if model is None else f"model {model}"
        raise SpecError(f"record {record['run']}: no {checkpoint} {metric} of {whose}; it holds {', '.join(have)}")
    return found


def _along(record: Record, metric: str, checkpoint: str, model: int | None) -> dict[int, float | None]:
    """Return the scores in the round of the learning curve that the rule ``checkpoint`` selects."""
    if model is not None:
        raise SpecError(f"record {record['run']}: no {checkpoint} of model {model}; curves are of clients' own models")
    if checkpoint == learning_curves.VALIDATED:
        best = learning_curves.validated(record["curves"], record["aggregated"], metric)
    elif sign(metric) < 0:
        raise SpecError(f"{metric}: its {checkpoint} would be the worst; show {learning_curves.VALIDATED!r}")
    else:
        best = learning_curves.bmcta(record["curves"], metric)
    return dict(enumerate(best.scores))


def run_mean(
    record: Record | None, metric: str, checkpoint: str, model: int | None = None, weights: Weights = "equal"
) -> float | None:
    """Return the mean over the clients with a defined score; None without any, and for a missing or diverged run."""
    if record is None or record["status"] == "diverged":
        return None
    scores = {
        client: score for client, score in client_scores(record, metric, checkpoint, model).items() if score is not None
    }
    if not scores:
        return None
    return statistics.mean(
        list(scores.values()), [record["test_sizes"][client] for client in scores] if weights == "test_size" else None
    )
