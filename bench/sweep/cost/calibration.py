"""The cost of training on this machine, from a few short trainings that are timed and kept in the cache.

A process has a start-up time: imports, and initialisation that torch postpones until its first use. A run batch has
one too: preparation and tracing. Afterwards time is linear in rounds, in the local steps of a round, and in runs; each
slope is measured at two points where needed. Stacked runs share much of their cost, so a stack is timed as a whole and
with one run; looped runs cost the same each, so one run is timed.
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
from bench.data.files.hashes import sha256
from bench.sweep import training
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import encode
from bench.train import halving
from bench.types import CHECKPOINTS, Budget, Federation, RunSpec, content_hash

# The first round is traced (for some algorithms the second too) and the last may tune, so one of three is typical.
ROUNDS = 3
STEPS = 3  # local steps of a timed round; see _other_steps for the second point


@dataclass(frozen=True)
class BatchCost:
    """The cost of a run batch of ``rounds`` rounds in seconds: ``once``, ``shared`` by all runs, and for ``each`` run.

    ``record`` is the size of one run's record and ``memory`` that of the process, in bytes; ``took`` is the time that
    the measurement took, in seconds.
    """

    once: float
    shared: float
    each: float
    rounds: int
    record: int
    memory: int
    took: float

    def seconds(self, run_batch: PlannedBatch) -> float:
        """Return the seconds of a run batch of the same kind, with any number of runs and rounds."""
        share = run_batch.runs[0].budget.rounds / self.rounds
        return self.once + (self.shared + self.each * _mean_runs(run_batch)) * share


def start(datasets: Iterable[str]) -> float:
    """Return the seconds that a process needs before it loads one of the data sets and trains."""

    def make() -> float:
        begun = time.perf_counter()
        from bench.train import engine

        for name in datasets:
            if name in registry.catalogue("datasets"):
                registry.load("datasets", name)  # imports the libraries that it needs
        sites = {name: {"train": ([[0.0], [1.0]], [0, 1]), "test": ([[0.0]], [0])} for name in ("north", "south")}
        engine.train(
            Federation.from_arrays(sites), algorithm="fedavg", model="logistic", settings=[{"lr": 0.1}], seeds=[1],
            budget=Budget(rounds=1, local_steps=1, batch_size=1),
        )  # fmt: skip
        return time.perf_counter() - begun

    return float(_remembered({"start": sorted(datasets)}, make))


def loading(run_batch: PlannedBatch, root: Path | None) -> float:
    """Return the seconds in which a process loads the data of the run batch."""

    def make() -> float:
        begun = time.perf_counter()
        _load(run_batch, root)
        return time.perf_counter() - begun

    return float(_remembered({"loading": [dict(run.data) for run in run_batch.first]}, make))


def cost(run_batch: PlannedBatch, root: Path | None) -> BatchCost:
    """Return the cost of a run batch and of all others of the same :func:`kind`."""
    return BatchCost(**_remembered({"cost": kind(run_batch)}, lambda: asdict(_timed(run_batch, root))))


def kind(run_batch: PlannedBatch) -> str:
    """Return a key that is equal for run batches of equal cost."""
    run = run_batch.runs[0]
    sizes = [len(run_batch.settings), len(run_batch.seeds), *run_batch.rungs, run_batch.reduction]
    data = {"name": run.data["name"], "fingerprint": None if run.data["by_seed"] else run.data["fingerprint"]}
    return content_hash({"data": data, "algorithm": run.algorithm, "model": run.model, "budget": asdict(run.budget),
                         "sizes": sizes})  # fmt: skip


def _remembered(what: Any, make: Callable[[], Any]) -> Any:
    """Return the value measured earlier on this machine with these versions and this module, or measure it now."""
    question = {"what": what, "code": sha256(Path(__file__))}
    if (made := machine.recall("calibration", question)) is None:
        made = make()
        machine.remember("calibration", question, made)
    return made


def _load(run_batch: PlannedBatch, root: Path | None) -> None:
    for run in run_batch.first:
        training.WorkerSettings(root, None).federation(run)


def _timed(run_batch: PlannedBatch, root: Path | None) -> BatchCost:
    begun = time.perf_counter()
    _load(run_batch, root)
    budget, runs = run_batch.runs[0].budget, len(run_batch.runs)
    steps = _steps(run_batch.runs[0], root)
    # A single run of a single client is always looped, so time two runs if there is one client.
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
    """A timed training of :data:`ROUNDS` rounds: seconds ``once``, per typical ``round``, and for the ``test``.

    ``ending`` is the extra time of the last round, which does not depend on the number of rounds: final tuning.
    """

    runs: int
    once: float
    round: float
    ending: float
    test: float
    record: dict[str, Any]

    @classmethod
    def of(cls, run_batch: PlannedBatch, steps: int, all_steps: int, root: Path | None) -> _Short:
        """Time the runs with ``steps`` local steps per round instead of ``all_steps``, without dropping settings."""
        budget = replace(run_batch.runs[0].budget, rounds=ROUNDS, test_every=0, patience=0)
        if steps < all_steps:
            budget = budget.working(steps=steps)
        runs = tuple(replace(run, budget=budget) for run in run_batch.runs)
        times: list[float] = []
        begun = time.perf_counter()
        records = training.train(
            replace(run_batch, runs=runs, rungs=()), training.WorkerSettings(root, None),
            lambda *told: times.append(time.perf_counter() - begun),
        )  # fmt: skip
        end = time.perf_counter() - begun
        # If the runs do not fit into one stack, several stacks are trained one after another.
        stacks = [times[first : first + ROUNDS] for first in range(0, len(times), ROUNDS)]
        typical = [min(last - second, second - first) for first, second, last in stacks]
        ending = sum(last - second - each for (_, second, last), each in zip(stacks, typical, strict=True))
        test = len(stacks) * (end - times[-1])
        once = max(0.0, end - ROUNDS * sum(typical) - ending - test)
        return cls(len(runs), once, sum(typical), ending, test, records[0])

    def all_rounds(self, budget: Budget, round_: float) -> float:
        """Return the seconds of all rounds, curves and tests if a round takes ``round_`` seconds."""
        return budget.rounds * round_ + self.ending + self.test * (1 + len(budget.tested) / len(CHECKPOINTS))


def _shared(few: _Short, whole: _Short, budget: Budget) -> float:
    """Return the share of a stack's time that does not depend on the number of runs."""
    if whole.runs == few.runs:
        return 1.0
    short, long = few.all_rounds(budget, few.round), whole.all_rounds(budget, whole.round)
    each = (long - short) / (whole.runs - few.runs)
    return min(1.0, max(0.0, 1 - each * whole.runs / long))


def _record_size(record: dict[str, Any], budget: Budget) -> int:
    """Return the bytes of a record with all rounds and curves, given one of :data:`ROUNDS` rounds without curves."""
    growing = {name: record[name] for name in ("validation", "aggregated", "traces")}
    metrics = {metric for _, _, _, metric, _ in record["scores"]}
    curves = 20 * len(budget.tested) * len(record["clients"]) * len(metrics)  # 20 bytes per number
    return len(encode(record)) + len(json.dumps(growing)) * (budget.rounds - ROUNDS) // ROUNDS + curves


def _steps(run: RunSpec, root: Path | None) -> list[int]:
    """Return the local steps per round of each training client."""
    from bench.train.batching.client_data import ClientData
    from bench.train.batching.schedule import cut

    federation = training.WorkerSettings(root, None).federation(run)
    pooled = registry.load("algorithms", run.algorithm["name"]).pooled
    counts = ClientData([federation], pooled, [run.seed], run.budget.validation).counts
    return [int(each) for each in cut(run.budget, counts[0, 0].clamp(min=1)).steps]


def _other_steps(steps: int, *, stacked: bool) -> int:
    """Return the local steps per round of the second timed training, at most ``steps``.

    Validation time grows with the number of samples, as ``steps`` does; an eighth of the steps separates the two.
    Stacked steps are fast, so more of them are needed for a reliable time; looped steps are slow.
    """
    if stacked:
        return min(steps, max(32, steps // 8))
    return steps // 8 if steps // 8 > 2 * STEPS else 1


def _mean_runs(run_batch: PlannedBatch) -> float:
    """Return the number of runs in training, averaged over rounds: it decreases if settings are dropped at rungs."""
    left, done, trained = len(run_batch.settings), 0, 0
    for rung in run_batch.rungs:
        trained += left * (rung - done)
        left, done = len(halving.survivors([0.0] * left, run_batch.reduction)), rung
    return len(run_batch.seeds) * trained / done if run_batch.rungs else len(run_batch.runs)
