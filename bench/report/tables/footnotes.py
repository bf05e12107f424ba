"""Footnotes of a table that say how its numbers were computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bench.report import learning_curves, statistics
from bench.report.scores import client_scores
from bench.report.tables.table import TableSpec
from bench.types import Chosen

COUNTED = {
    "parameters": "trained parameters of a model",
    "floats_up": "floats uploaded per client and round, mean over clients and rounds",
    "floats_down": "floats downloaded per client and round, mean over clients and rounds",
}


def computed(
    spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str], unscored: Collection[int]
) -> Iterator[str]:
    """Yield how the settings were chosen, what they cost, and how the numbers were averaged.

    ``used`` are the chosen settings by method key, ``unscored`` the numbers of the clients without test samples.
    """
    names = {row.of: row.method for row in reversed(spec.rows)}
    yield _chosen(used, names)
    yield from spec.searched
    costs = [
        f"{names[key]} {' / '.join(f'{_communicated(choice, way):,.0f}' for way in ('up', 'down'))}"
        for key, choice in used.items()
        if any(choice.records)
    ]
    yield f"Communication cost (floats uploaded / downloaded per client and round): {'; '.join(costs)}."
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for key, choice in used.items():
        by_seeds.setdefault(choice.seeds, []).append(names[key])
    for seeds, methods in by_seeds.items():
        whose = f" ({', '.join(methods)})" if len(by_seeds) > 1 else ""
        yield f"Seeds{whose}: {listed(seeds)}."
    if any(learning_curves.ORACLE in row.checkpoints for row in spec.rows):
        yield (
            f"{learning_curves.ORACLE}: the round with the highest mean test score over clients, as in the paper; test "
            f"samples select the round, so the result is optimistic. {learning_curves.VALIDATED}: the tested round "
            f"with the lowest validation loss."
        )
    yield from _spread(spec, {len(choice.seeds) for choice in used.values()})
    if unscored:
        yield f"Not scored, because they have no test samples: {', '.join(clients[each] for each in sorted(unscored))}."
    yield from _undefined(spec, used, clients)


def listed(seeds: Collection[int]) -> str:
    """Return seeds in ascending order, three or more in a row as a range: "8, 10 to 12"; more than ten are counted."""
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
    own = {names[key]: _settings(set(_items(choice)) - common) for key, choice in used.items()}
    shared = [f"{_settings(common)} for all methods"] if common else []
    chosen = "; ".join(shared + [f"{name}: {text}" for name, text in own.items() if text]) or "none"
    return f"Selection rule: {', '.join(rules)}. Chosen settings: {chosen}."


def _items(choice: Chosen) -> Iterator[tuple[str, Any]]:
    """Yield names and values; a list becomes its text, so that items are hashable."""
    return ((name, str(value) if isinstance(value, list) else value) for name, value in choice.hyperparameters.items())


def _settings(values: Collection[tuple[str, Any]]) -> str:
    shown = (
        f"{name} = {value:g}" if isinstance(value, float | int) else f"{name} = {value}"
        for name, value in sorted(values)
    )
    return ", ".join(shown)


def _communicated(choice: Chosen, way: str) -> float:
    return statistics.mean([record["communication"][way] for record in choice.records if record is not None])


def _spread(spec: TableSpec, runs: Collection[int]) -> Iterator[str]:
    """Yield what a number is, and what its ± means."""
    if spec.value in COUNTED:
        yield f"Shown: {COUNTED[spec.value]}."
        return
    if spec.value == "fairness":
        yield f"Shown: variance over clients of each client's median {spec.metric} over runs; lower is fairer."
        return
    if spec.value == "participation":
        yield (
            f"Shown: share of clients whose median {spec.metric} over runs is better than with training alone "
            f"({spec.against[0]}) and than with {spec.against[1]}."
        )
        return
    weighted = ", weighted by test samples," if spec.weights == "test_size" else ""
    yield f"Averaging: {spec.metric}, mean over clients{weighted} in each run, then {spec.center} over runs."
    for n in sorted(runs):
        if n < 2:
            yield "Spread: none; an interval needs at least two runs."
            continue
        match spec.interval:
            case "t":
                freedom = "1 degree" if n == 2 else f"{n - 1} degrees"
                yield (
                    f"Spread: ± is the radius of the 95 % t interval over {n} runs ({freedom} of freedom); the "
                    f"radius of the normal interval is {statistics.normal_share(n):.3f} times as large."
                )
            case "normal":
                yield (
                    f"Spread: ± is the radius of the 95 % normal interval, 1.96 standard deviations divided by the "
                    f"square root of {n} runs; the radius of the t interval is "
                    f"{1 / statistics.normal_share(n):.3f} times as large."
                )
            case "bootstrap":
                yield f"Spread: ± is half the width of the 95 % bootstrap interval of the {spec.center} over {n} runs."


def _undefined(spec: TableSpec, used: Mapping[str, Chosen], clients: Sequence[str]) -> Iterator[str]:
    """Yield the clients on which the metric could not be computed, with the number of scores left out."""
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
            yield f"{metric} is undefined on {clients[client]} in {count}, which the means leave out."
