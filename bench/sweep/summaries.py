"""Summaries of a record: scores of the clients' own models, mean scores, and the settings of its run."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from statistics import fmean
from typing import Any

from bench.sweep.search.selection import best_validation

Record = Mapping[str, Any]
NOT_RECORDED = "not recorded"  # the environments of records of the first formats
Score = tuple[str, int, str, float | None]  # checkpoint, client, metric, value (None if undefined)


def own_scores(record: Record) -> list[Score]:
    """Return the scores of each client's own model on its own test set; a pooled run has one model for all."""
    pooled = len({model for _, model, *_ in record["scores"]}) == 1
    return [
        (checkpoint, client, metric, value)
        for checkpoint, model, client, metric, value in record["scores"]
        if pooled or model == client
    ]


def own_metric(record: Record) -> str | None:
    """Return the data set's default metric, which is its first; None if no client has test samples."""
    return record["scores"][0][3] if record["scores"] else None


def means(record: Record, metric: str | None) -> dict[str, float | None]:
    """Return the mean over clients for each recorded checkpoint; None if the metric is undefined for all clients."""
    defined: dict[str, list[float]] = {}
    for checkpoint, _, name, value in own_scores(record):
        if name == metric:
            defined.setdefault(checkpoint, []).extend(() if value is None else (value,))
    return {rule: fmean(values) if values else None for rule, values in defined.items()}


def names(record: Record) -> dict[str, Any]:
    """Return all settings of a run by their names in a study file: "lr", "model.hidden", "budget.rounds", "seed"."""
    spec = record["spec"]
    parts = ("data", "algorithm", "model")
    named = {part: spec[part]["name"] for part in parts} | spec["hyperparameters"] | {"seed": spec["seed"]}
    for part in parts:
        named |= {f"{part}.{option}": value for option, value in spec[part]["options"].items()}
    return named | {f"budget.{key}": value for key, value in spec["budget"].items()}


def environment(record: Record) -> str:
    """Return in one line the environments that a run was trained in (see :mod:`bench.environment`)."""
    return " then ".join(map(listed, record["environments"])) or NOT_RECORDED


def listed(facts: Mapping[str, str]) -> str:
    """Return the facts of an environment in one line, in alphabetical order."""
    return ", ".join(f"{name} {facts[name]}" for name in sorted(facts, key=str.lower))


def summary(record: Record) -> dict[str, Any]:
    """Return a short form of a run, in plain containers.

    ``setting`` has its hyper-parameters, ``loss`` the lowest validation loss, ``scores`` the means over clients.
    """
    spec, metric, loss = record["spec"], own_metric(record), best_validation(record)
    return {
        "run": record["run"],
        **{part: spec[part]["name"] for part in ("data", "algorithm", "model")},
        "setting": spec["hyperparameters"],
        "seed": spec["seed"],
        "status": record["status"],
        "loss": loss if isfinite(loss) else None,
        "metric": metric,
        "scores": means(record, metric),
        "synthetic": record["synthetic"],
        "environment": environment(record),
    }
