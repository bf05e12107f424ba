"""One run batch, trained: what a worker does, in this process, another one, or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from bench import __version__
from bench.data import load_dataset
from bench.sweep.plan import MAX_FEDERATIONS, PlannedBatch, with_rounds
from bench.sweep.store import FORMAT
from bench.types import DataError, Federation, Outcome, RunSpec, content_hash

Tell = Callable[[int, int, float | None], None]  # rounds finished, rounds, best aggregated validation loss so far
Made = TypeVar("Made")


class RecentCache(Generic[Made]):
    """What was made of runs' data, as much of it as two run batches need; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._made: dict[str, Made] = {}

    def of(self, run: RunSpec, make: Callable[[RunSpec], Made]) -> Made:
        """What was made for a run that sees the same data, or is made now."""
        if (key := data_key(run)) not in self._made:
            made = make(run)
            if len(self._made) >= 2 * MAX_FEDERATIONS:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        return self._made[key]


def data_key(run: RunSpec) -> str:
    """The same for runs that see the same data."""
    return content_hash(dict(run.data))


_loaded: RecentCache[Federation] = RecentCache()


@dataclass(frozen=True)
class WorkerSettings:
    """Where a worker finds and keeps things: raw data, and the snapshots of what is running."""

    root: Path | None
    snapshots: Path | None
    every_rounds: int | None = None
    every_seconds: float = 300.0

    def federation(self, run: RunSpec) -> Federation:
        """The run's data, loaded once for all run batches that see them; a fingerprint that differs is an error."""
        return _loaded.of(run, partial(load, self.root))


def train(
    run_batch: PlannedBatch, site: WorkerSettings, tell: Tell = lambda finished, rounds, best: None
) -> list[dict[str, Any]]:
    """The records of all runs of the run batch, in its order; of one with rungs, those of settings as they ended."""
    from bench.native import keep_freed_memory
    from bench.train import engine
    from bench.train.snapshots import Keeping

    common = run_batch.runs[0]
    federations = [site.federation(run) for run in run_batch.first]
    keeping = Keeping(site.snapshots, site.every_rounds, site.every_seconds) if site.snapshots else None
    keep_freed_memory()
    with _one_thread():
        trained = engine.run(
            federations,
            algorithm=common.algorithm["name"],
            algorithm_options=common.algorithm["options"],
            model=common.model["name"],
            model_options=common.model["options"],
            settings=list(run_batch.settings),
            seeds=list(run_batch.seeds),
            budget=common.budget,
            rungs=run_batch.rungs,
            reduction=run_batch.reduction,
            snapshots=keeping,
            tell=tell,
        )
    return [
        record(_as_ended(run, outcome), outcome, federations[number % len(federations)])
        for number, (run, outcome) in enumerate(zip(run_batch.runs, trained.outcomes, strict=True))
    ]


def _as_ended(run: RunSpec, outcome: Outcome) -> RunSpec:
    """The run that was really made: a setting dropped at a rung is a run of so many rounds."""
    return with_rounds(run, len(outcome.validation))


def load(root: Path | None, run: RunSpec) -> Federation:
    """The run's data from their files; raises :class:`DataError` where they are not those that it was planned with."""
    loaded = load_dataset(run.data["name"], root, **run.data["options"])
    if loaded.fingerprint != run.data["fingerprint"]:
        what = f"{run.data['name']}: the data have changed since the study was planned"
        expected = f"expected fingerprint {run.data['fingerprint']}, found {loaded.fingerprint}"
        raise DataError(f"{what}, {expected}; repeat the command")
    return loaded


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: faster for small models, and the same sums whatever the number of cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def record(run: RunSpec, outcome: Outcome, federation: Federation) -> dict[str, Any]:
    """What is kept of one run: plain containers, and nothing (time, machine) that differs when it is repeated."""
    untuned = {} if outcome.untuned is None else {"untuned": outcome.untuned}
    return {
        "format": FORMAT,
        "run": run.hash,
        "spec": run.as_dict(),
        "status": outcome.status,
        "diverged": outcome.diverged,
        "scores": outcome.scores,
        "validation": outcome.validation,
        "aggregated": outcome.aggregated,
        **untuned,
        "curves": outcome.curves,
        "traces": outcome.traces,
        "communication": outcome.communication,
        "parameters": outcome.parameters,
        "client_parameters": list(outcome.client_parameters),
        "path": outcome.path,
        "clients": [client.name for client in federation.clients],
        "test_sizes": federation.test_sizes,
        "synthetic": federation.synthetic,
        "versions": {"silobench": __version__, "torch": version("torch")},
    }
