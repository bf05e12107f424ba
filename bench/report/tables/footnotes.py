"""The lines below a table that say how its numbers came about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bench.report import learning_curves, statistics
from bench.report.scores import client_scores
from bench.report.tables.table import TableSpec
from bench.types import Chosen

COUNTED = {
    "parameters": "trained numbers of a model",
    "floats_up": "floats that a client sends each round, mean over clients and rounds",
    "floats_down": "floats that a client receives each round, mean over clients and rounds",
}


def made(
    spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str], unscored: Collection[int]
) -> Iterator[str]:
    """How the numbers were chosen, averaged and spread."""
    names = {row.of: row.method for row in reversed(spec.rows)}
    yield _chosen(used, names)
    yield from spec.searched
    travels = [
        f"{names[key]} {' / '.join(f'{_travelled(choice, way):,.0f}' for way in ('up', 'down'))}"
        for key, choice in used.items()
        if any(choice.records)
    ]
    yield f"Travels (floats up / down, each client and round): {'; '.join(travels)}."
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for key, choice in used.items():
        by_seeds.setdefault(choice.seeds, []).append(names[key])
    for seeds, methods in by_seeds.items():
        whose = f" ({', '.join(methods)})" if len(by_seeds) > 1 else ""
        yield f"Seeds{whose}: {listed(seeds)}."
    if any(learning_curves.ORACLE in row.checkpoints for row in spec.rows):
        yield (
            f"{learning_curves.ORACLE}: the round with the highest mean over clients of the test score, as the paper "
            f"picks it; test samples choose, which makes it too good. {learning_curves.VALIDATED}: the round with the "
            f"lowest validation loss, of those tested."
        )
    yield from _spread(spec, {len(choice.seeds) for choice in used.values()})
    if unscored:
        yield f"Not scored, for want of test samples: {', '.join(clients[number] for number in sorted(unscored))}."
    yield from _undefined(spec, used, clients)


def listed(seeds: Collection[int]) -> str:
    """Seeds in ascending order, three or more in a row as a range: "8, 10 to 12"; counted when more than ten."""
    rows: list[list[int]] = []
    for seed in sorted(seeds):
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    shown = ", ".join(f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)
    return f"{shown} ({len(seeds)} seeds)" if len(seeds) > 10 else shown


def _chosen(used: Mapping[str, Chosen], names: Mapping[str, str]) -> str:
    rules = sorted({choice.rule for choice in used.values()})
    common = set.intersection(*(set(_items(choice)) for choice in used.values()))
    everywhere = f", all with {_settings(common).rstrip()}" if common else ""
    settings = (
        f"{names[key]} {_settings(set(_items(choice)) - common)}({choice.settings} searched)"
        for key, choice in used.items()
    )
    return f"Selection rule: {', '.join(rules)}. Chosen settings{everywhere}: {'; '.join(settings)}."


def _items(choice: Chosen) -> Iterator[tuple[str, Any]]:
    """Names and values; a list stands for itself as text."""
    return ((name, str(value) if isinstance(value, list) else value) for name, value in choice.hyperparameters.items())


def _settings(values: Collection[tuple[str, Any]]) -> str:
    shown = (f"{name} = {value:g}" if isinstance(value, float | int) else f"{name} = {value}" for name, value in
             sorted(values))  # fmt: skip
    return ", ".join(shown) + " " * bool(values)


def _travelled(choice: Chosen, way: str) -> float:
    return statistics.mean([record["communication"][way] for record in choice.records if record is not None])


def _spread(spec: TableSpec, runs: Collection[int]) -> Iterator[str]:
    """What a number is, and what stands behind its ±."""
    if spec.value in COUNTED:
        yield f"Shown: {COUNTED[spec.value]}."
        return
    if spec.value == "fairness":
        yield f"Shown: variance over clients of each client's median {spec.metric} over runs; lower is fairer."
        return
    if spec.value == "participation":
        yield (
            f"Shown: share of clients whose median {spec.metric} over runs is better than that of training alone "
            f"({spec.against[0]}) and than with {spec.against[1]}."
        )
        return
    weighted = " weighted by test samples" if spec.weights == "test_size" else ""
    yield f"Averaging: {spec.metric}, mean over clients{weighted} in each run, then {spec.center} over runs."
    for n in sorted(runs):
        if n < 2:
            yield "Spread: none, an interval needs at least two runs."
            continue
        match spec.interval:
            case "t":
                yield (
                    f"Spread: ± is the radius of the 95 % t interval over {n} runs ({n - 1} degrees of freedom); "
                    f"the radius of a normal interval is {statistics.normal_share(n):.3f} times that."
                )
            case "normal":
                yield (
                    f"Spread: ± is 1.96 standard deviations over the root of {n} runs, a normal interval; the t "
                    f"interval's radius is {1 / statistics.normal_share(n):.3f} times that."
                )
            case "bootstrap":
                yield f"Spread: ± is half the 95 % bootstrap interval of the {spec.center} over {n} runs."


def _undefined(spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str]) -> Iterator[str]:
    """Where the metric could not be computed, with the number of scores left out."""
    if spec.value in COUNTED:
        return
    scores: dict[tuple[str, int], list[float | None]] = {}
    for row in spec.rows:
        metric = spec.metric_of(row)
        for finished in (run for run in used[row.of].records if run and run["status"] == "finished"):
            for checkpoint in row.checkpoints:
                for client, score in client_scores(finished, metric, checkpoint, row.model).items():
                    scores.setdefault((metric, client), []).append(score)
    for (metric, client), values in sorted(scores.items()):
        if None in values:
            count = f"{values.count(None)} of {len(values)} scores"
            yield f"{metric} is undefined on {clients[client]} in {count}; left out of the means."
