"""What a study would cost on this machine, before it runs: a few local steps of what it trains, timed and scaled.

The largest populations are timed first, each for two rounds of a few steps, until :data:`PATIENCE` seconds are used
up; those that were not timed take as long as the ones most like them. What was timed is remembered.
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import __version__
from bench.data import cards, fetch
from bench.files import write_whole
from bench.spec import StudySpec
from bench.sweep import work
from bench.sweep.plan import Population
from bench.sweep.store import Store, seal
from bench.sweep.study import populations
from bench.types import Budget, RunSpec, content_hash

PATIENCE = 20.0  # seconds
STEPS = 20  # local steps of a round that is timed


@dataclass(frozen=True)
class Missing:
    """Files of a data set that are not on this machine; ``size`` in bytes, None if it is not known of one of them."""

    data: str
    files: tuple[str, ...]
    size: int | None


@dataclass(frozen=True)
class Estimate:
    """What a study would do: ``seconds`` of each population of one worker, None where data are missing.

    ``memory`` is what a worker needs and ``disk`` what the records take, in bytes; ``timed`` populations of all were.
    """

    title: str
    runs: int
    to_train: int
    seconds: tuple[float, ...] | None
    timed: int
    memory: int
    disk: int
    missing: tuple[Missing, ...]

    def wall(self, workers: int) -> float:
        """Seconds that so many workers take: the longest population first to whoever is free."""
        busy = [0.0] * workers
        for each in sorted(self.seconds or (), reverse=True):
            busy[busy.index(min(busy))] += each
        return max(busy)


def estimate(study: StudySpec, store: Store, root: Path | None = None) -> Estimate:
    """What is left to train of a study and what that would cost; trains a few local steps to find out."""
    if missing := _missing(study, root):
        runs = study.runs(study.methods)
        return Estimate(study.title, runs, runs, None, 0, 0, 0, missing)
    planned, runs = populations(study, store.records(), root)
    begun = time.monotonic()
    costs: dict[str, _Cost] = {}
    for population in sorted(planned, key=_size, reverse=True):
        if _alike(population) not in costs and time.monotonic() - begun < PATIENCE:
            costs[_alike(population)] = _cost(population, root)
    each = [costs.get(_alike(population)) or _similar(population, planned, costs) for population in planned]
    return Estimate(
        title=study.title,
        runs=runs,
        to_train=sum(len(population.runs) for population in planned),
        seconds=tuple(cost.seconds(len(pop.runs)) for pop, cost in zip(planned, each, strict=True)),
        timed=sum(_alike(population) in costs for population in planned),
        memory=max((cost.memory for cost in each), default=0),
        disk=sum(cost.record * len(pop.runs) for pop, cost in zip(planned, each, strict=True)),
        missing=(),
    )


@dataclass(frozen=True)
class _Cost:
    """Seconds of a population: ``fixed`` and, for the ``runs`` timed, ``timed``; bytes of a record and of memory."""

    fixed: float
    timed: float
    runs: int
    record: int
    memory: int

    def seconds(self, runs: int) -> float:
        return self.fixed + self.timed * runs / self.runs


def _cost(population: Population, root: Path | None) -> _Cost:
    """The cost of a population, remembered for this machine and version."""
    machine = [platform.node(), os.cpu_count(), __version__, sys.version]
    key = content_hash({"machine": machine, "alike": _alike(population), "steps": STEPS})
    memory = fetch.cache_folder() / "calibration" / f"{key}.json"
    with suppress(OSError, ValueError, TypeError):
        return _Cost(**json.loads(memory.read_bytes()))
    cost = _timed(population, root)
    with suppress(OSError):
        write_whole(memory, json.dumps(asdict(cost)).encode())
    return cost


def _timed(population: Population, root: Path | None) -> _Cost:
    """Two rounds of a few local steps: of the whole population if it is stacked, else of two of its runs."""
    budget = population.runs[0].budget
    alone = len(population.seeds) == 1
    several = _shortened(population.part(slice(1 + alone), slice(2 - alone)))
    records, moments = _train(several, root)
    if records[0]["path"] == "stack":
        several = _shortened(population)
        records, moments = _train(several, root)
    round_, testing = moments[1] - moments[0], moments[2] - moments[1]
    per_round = round_ * _steps(population, root, records[0]["path"]) / _most_steps(budget)
    size = len(seal(records[0])) + 12 * (len(records[0]["clients"]) + 1) * (budget.rounds - 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    timed = per_round * budget.rounds + testing
    return _Cost(max(0.0, moments[0] - round_), timed, len(several.runs), size, peak)


def _train(population: Population, root: Path | None) -> tuple[list[dict[str, Any]], list[float]]:
    """The records, and when the first round, the second round and the test were over."""
    moments: list[float] = []
    start = time.perf_counter()
    records = work.train(population, work.Site(root, None), lambda *told: moments.append(time.perf_counter() - start))
    return records, [*moments, time.perf_counter() - start]


def _shortened(population: Population) -> Population:
    """The same runs with two rounds of fewer local steps, none of them dropped on the way."""
    budget = population.runs[0].budget
    steps: dict[str, Any] = {"local_steps": _most_steps(budget), "local_epochs": None}
    short = replace(budget, rounds=2, test_every=0, **(steps if budget.batches is None else {}))
    return replace(population, runs=tuple(replace(run, budget=short) for run in population.runs), rungs=())


def _most_steps(budget: Budget) -> int:
    return min(STEPS, budget.local_steps or STEPS)


def _steps(population: Population, root: Path | None, path: str) -> float:
    """Local steps of a round in units of what was timed: of the slowest client if stacked, else of the mean one."""
    from bench.train.batches import local_steps

    run = population.runs[0]
    if run.budget.batches is not None:
        return _most_steps(run.budget)  # was timed as it is
    clients = work.Site(root, None).federation(run).clients
    share = 1 - run.budget.validation
    sizes = [len(client.train) * (1 if client.validation else share) for client in clients]
    steps = [local_steps(run.budget, max(1, math.floor(size))) for size in sizes]
    return max(steps) if path == "stack" else fmean(steps)


def _similar(population: Population, planned: Sequence[Population], costs: Mapping[str, _Cost]) -> _Cost:
    """The mean cost of the timed populations that are most like one that was not."""

    def likeness(other: RunSpec) -> int:
        mine = population.runs[0]
        return (other.data == mine.data) + (other.model == mine.model) + (other.budget == mine.budget)

    timed = [(likeness(each.runs[0]), costs[_alike(each)]) for each in planned if _alike(each) in costs]
    best = max(closeness for closeness, _ in timed)
    like = [cost for closeness, cost in timed if closeness == best]
    per_run = fmean(cost.timed / cost.runs for cost in like)
    return replace(like[0], fixed=fmean(cost.fixed for cost in like), timed=per_run, runs=1)


def _alike(population: Population) -> str:
    """Populations that cost the same."""
    run = population.runs[0]
    sizes = [len(population.settings), len(population.seeds)]
    data = {"name": run.data["name"], "fingerprint": None if run.data["by_seed"] else run.data["fingerprint"]}
    return content_hash({"data": data, "algorithm": run.algorithm, "model": run.model, "budget": asdict(run.budget),
                         "sizes": sizes})  # fmt: skip


def _size(population: Population) -> int:
    return len(population.runs) * population.runs[0].budget.rounds


def _missing(study: StudySpec, root: Path | None) -> tuple[Missing, ...]:
    """Files that the study's data sets need and this machine lacks."""
    found = []
    for name in sorted({method.data.name for method in study.methods.values()}):
        lacking = [each for each in cards.read(name).files if each.place(root) is None]
        sizes = [each.size for each in lacking]
        size = None if None in sizes else sum(each for each in sizes if each is not None)
        if lacking:
            found.append(Missing(name, tuple(each.names[0] for each in lacking), size))
    return tuple(found)
