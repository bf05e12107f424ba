"""What training costs on this machine, from a few short trainings that are timed and remembered.

A process costs something before it trains anything: imports, and what torch puts off until it is first used. So does
a run_batch, which is prepared and traced. After that, time grows with rounds, with the local steps of a round and
with runs, in a straight line each; along each of them two points are timed where one would not do. Stacked runs share
much of their cost, so a stack is timed whole and with one run; looped ones cost the same each, so one is enough.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import machine, registry
from bench.sweep import training
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import seal
from bench.train import halving
from bench.types import CHECKPOINTS, Budget, Federation, RunSpec, content_hash

# The first round is traced, and of some algorithms the second; the last may tune. One of three is like most.
ROUNDS = 3
STEPS = 3  # local steps of a round that is timed; those of a second one, if a round has more, see _other_steps


@dataclass(frozen=True)
class BatchCost:
    """Seconds of a run batch ``once``, of all its ``rounds`` however many runs there are, and for ``each`` run.

    ``record`` and ``memory`` are bytes, of one run and of the process; ``took`` is how long it took to find out.
    """

    once: float
    shared: float
    each: float
    rounds: int
    record: int
    memory: int
    took: float

    def seconds(self, run_batch: PlannedBatch) -> float:
        """What this run batch costs, if it is one like that which was timed, of any number of runs and rounds."""
        share = run_batch.runs[0].budget.rounds / self.rounds
        return self.once + (self.shared + self.each * _racing(run_batch)) * share


def start(datasets: Iterable[str]) -> float:
    """Seconds that a process needs before it loads any of the data sets and trains."""

    def make() -> float:
        begun = time.perf_counter()
        from bench.train import engine

        for name in datasets:
            if name in registry.catalogue("datasets"):
                registry.load("datasets", name)  # for the libraries that it imports
        sites = {name: {"train": ([[0.0], [1.0]], [0, 1]), "test": ([[0.0]], [0])} for name in ("north", "south")}
        engine.train(
            Federation.from_arrays(sites), algorithm="fedavg", model="logistic", settings=[{"lr": 0.1}], seeds=[1],
            budget=Budget(rounds=1, local_steps=1, batch_size=1),
        )  # fmt: skip
        return time.perf_counter() - begun

    return float(_remembered({"start": sorted(datasets)}, make))


def loading(run_batch: PlannedBatch, root: Path | None) -> float:
    """Seconds in which a process loads the run batch's data."""

    def make() -> float:
        begun = time.perf_counter()
        _load(run_batch, root)
        return time.perf_counter() - begun

    return float(_remembered({"loading": [dict(run.data) for run in run_batch.first]}, make))


def cost(run_batch: PlannedBatch, root: Path | None) -> BatchCost:
    """The cost of a run batch and of all like it, see :func:`kind`."""
    return BatchCost(**_remembered({"cost": kind(run_batch)}, lambda: asdict(_timed(run_batch, root))))


def kind(run_batch: PlannedBatch) -> str:
    """The same for run batches that cost the same."""
    run = run_batch.runs[0]
    sizes = [len(run_batch.settings), len(run_batch.seeds), *run_batch.rungs, run_batch.reduction]
    data = {"name": run.data["name"], "fingerprint": None if run.data["by_seed"] else run.data["fingerprint"]}
    return content_hash({"data": data, "algorithm": run.algorithm, "model": run.model, "budget": asdict(run.budget),
                         "sizes": sizes})  # fmt: skip


def _remembered(what: Any, make: Callable[[], Any]) -> Any:
    """What was made of ``what`` on this machine with these versions, or is made now."""
    if (made := machine.recall("calibration", what)) is None:
        made = make()
        machine.remember("calibration", what, made)
    return made


def _load(run_batch: PlannedBatch, root: Path | None) -> None:
    for run in run_batch.first:
        training.WorkerSettings(root, None).federation(run)


def _timed(run_batch: PlannedBatch, root: Path | None) -> BatchCost:
    begun = time.perf_counter()
    _load(run_batch, root)
    budget, runs = run_batch.runs[0].budget, len(run_batch.runs)
    steps = _steps(run_batch.runs[0], root)
    # A single run of a single client is looped, even where several would be stacked.
    fewest = slice(1 if len(steps) > 1 else 2)
    few = run_batch.part(fewest, fewest)
    first = whole = _Short.of(few, min(max(steps), STEPS), max(steps), root)
    stacked = first.record["path"] == "stack"
    if stacked and runs > first.runs:
        whole = _Short.of(run_batch, min(max(steps), STEPS), max(steps), root)
    share = _shared(first, whole, budget) if stacked else 0.0
    round_ = whole.round
    if max(steps) > STEPS:
        second = _other_steps(max(steps), stacked=stacked)
        other = _Short.of(run_batch if stacked else few, second, max(steps), root)
        step = max(0.0, (other.round - whole.round) / (second - STEPS))
        round_ = other.round + step * ((max(steps) if stacked else fmean(steps)) - second)
    rounds = whole.all_rounds(budget, round_)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return BatchCost(
        once=whole.once,
        shared=share * rounds,
        each=(1 - share) * rounds / whole.runs,
        rounds=budget.rounds,
        record=_record_size(first.record, budget),
        memory=peak,
        took=time.perf_counter() - begun,
    )


@dataclass(frozen=True)
class _Short:
    """A training of :data:`ROUNDS` rounds: seconds ``once``, of a usual ``round``, of the test and what ends the last.

    What is tuned at the end is in ``ending``, for it comes once whatever the rounds, and for every run.
    """

    runs: int
    once: float
    round: float
    ending: float
    test: float
    record: dict[str, Any]

    @classmethod
    def of(cls, run_batch: PlannedBatch, steps: int, all_steps: int, root: Path | None) -> _Short:
        """The run batch's runs with ``steps`` local steps a round in place of ``all_steps``, none of them dropped."""
        budget = replace(run_batch.runs[0].budget, rounds=ROUNDS, test_every=0)
        if steps < all_steps:
            budget = budget.working(steps=steps)
        runs = tuple(replace(run, budget=budget) for run in run_batch.runs)
        moments: list[float] = []
        begun = time.perf_counter()
        records = training.train(
            replace(run_batch, runs=runs, rungs=()), training.WorkerSettings(root, None),
            lambda *told: moments.append(time.perf_counter() - begun),
        )  # fmt: skip
        end = time.perf_counter() - begun
        # Too many runs for one stack are several, one after another.
        stacks = [moments[first : first + ROUNDS] for first in range(0, len(moments), ROUNDS)]
        usual = [min(last - second, second - first) for first, second, last in stacks]
        ending = sum(last - second - each for (_, second, last), each in zip(stacks, usual, strict=True))
        test = len(stacks) * (end - moments[-1])
        once = max(0.0, end - ROUNDS * sum(usual) - ending - test)
        return cls(len(runs), once, sum(usual), ending, test, records[0])

    def all_rounds(self, budget: Budget, round_: float) -> float:
        """Seconds of all rounds, curves and tests if a round takes ``round_``."""
        return budget.rounds * round_ + self.ending + self.test * (1 + len(budget.tested) / len(CHECKPOINTS))


def _shared(few: _Short, whole: _Short, budget: Budget) -> float:
    """The share of a stack's time that does not grow with its runs."""
    if whole.runs == few.runs:
        return 1.0
    short, long = few.all_rounds(budget, few.round), whole.all_rounds(budget, whole.round)
    each = (long - short) / (whole.runs - few.runs)
    return min(1.0, max(0.0, 1 - each * whole.runs / long))


def _record_size(record: dict[str, Any], budget: Budget) -> int:
    """Bytes of the record with all rounds and curves, from one of :data:`ROUNDS` without curves."""
    growing = {name: record[name] for name in ("validation", "aggregated", "traces")}
    metrics = {metric for _, _, _, metric, _ in record["scores"]}
    curves = 20 * len(budget.tested) * len(record["clients"]) * len(metrics)  # 20 for a number
    return len(seal(record)) + len(json.dumps(growing)) * (budget.rounds - ROUNDS) // ROUNDS + curves


def _steps(run: RunSpec, root: Path | None) -> list[int]:
    """Local steps in a round of each client that trains."""
    from bench.train.batching.schedule import held_out, local_steps

    clients = training.WorkerSettings(root, None).federation(run).clients
    less = [0 if client.validation else held_out(len(client.train), run.budget.validation) for client in clients]
    sizes = [max(1, len(client.train) - validated) for client, validated in zip(clients, less, strict=True)]
    if registry.load("algorithms", run.algorithm["name"]).pooled:
        sizes = [sum(sizes)]
    return [local_steps(run.budget, size) for size in sizes]


def _other_steps(steps: int, *, stacked: bool) -> int:
    """How many local steps a second round has that is timed, in place of so many.

    Validation grows with the samples, as ``steps`` do: to tell the two apart wants an eighth of the steps. Stacked ones
    are quick, and few are hard to time; looped ones are slow.
    """
    if stacked:
        return min(steps, max(32, steps // 8))
    return steps // 8 if steps // 8 > 2 * STEPS else 1


def _racing(run_batch: PlannedBatch) -> float:
    """How many runs are trained at a time, mean over rounds: fewer and fewer where settings are dropped."""
    left, done, trained = len(run_batch.settings), 0, 0
    for rung in run_batch.rungs:
        trained += left * (rung - done)
        left, done = len(halving.survivors([0.0] * left, run_batch.reduction)), rung
    return len(run_batch.seeds) * trained / done if run_batch.rungs else len(run_batch.runs)
