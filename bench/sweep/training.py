"""Training of one run batch, as a worker does it: in this process, in another one, or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

# Arguments: rounds finished, rounds, lowest aggregated validation loss so far.
Tell = Callable[[int, int, float | None], None]
Value = TypeVar("Value")


class RecentCache(Generic[Value]):
    """Values computed from the data of runs, as many as two run batches need; the oldest is dropped first."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}

    def get(self, run: RunSpec, make: Callable[[RunSpec], Value]) -> Value:
        """Return the value for the run's data; call ``make`` if it is not in the cache."""
        if (key := data_key(run)) not in self._values:
            value = make(run)
            if len(self._values) >= 2 * MAX_FEDERATIONS:
                del self._values[next(iter(self._values))]
            self._values[key] = value
        return self._values[key]


def data_key(run: RunSpec) -> str:
    """Return a key that is equal for runs on equal data."""
    return content_hash(dict(run.data))


_loaded: RecentCache[Federation] = RecentCache()


@dataclass(frozen=True)
class WorkerSettings:
    """The folders of a worker: raw data (``root``) and ``snapshots``; and how often it writes a snapshot."""

    root: Path | None
    snapshots: Path | None
    every_rounds: int | None = None
    every_seconds: float = 300.0

    def federation(self, run: RunSpec) -> Federation:
        """Return the run's data, loaded once for all run batches on them; raise :class:`DataError` if they changed."""
        return _loaded.get(run, partial(load, self.root))


def train(
    run_batch: PlannedBatch, worker: WorkerSettings, tell: Tell = lambda finished, rounds, best: None
) -> list[dict[str, Any]]:
    """Return the records of all runs of the run batch, in its order.

    With rungs, a setting that was dropped has the records of a run that ends at the rung.
    """
    from bench.native.memory import keep_freed_memory
    from bench.train import engine
    from bench.train.snapshots import SnapshotPolicy

    common = run_batch.runs[0]
    federations = [worker.federation(run) for run in run_batch.first]
    policy = SnapshotPolicy(worker.snapshots, worker.every_rounds, worker.every_seconds) if worker.snapshots else None
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
            snapshots=policy,
            tell=tell,
        )
    return [
        record(_as_trained(run, outcome), outcome, federations[number % len(federations)], trained.environments)
        for number, (run, outcome) in enumerate(zip(run_batch.runs, trained.outcomes, strict=True))
    ]


def _as_trained(run: RunSpec, outcome: Outcome) -> RunSpec:
    """Return the run as its record specifies it: a setting dropped at a rung is a run of fewer rounds."""
    return run if outcome.stopped else with_rounds(run, len(outcome.validation))


def load(root: Path | None, run: RunSpec) -> Federation:
    """Return the run's data, read from their files; raise :class:`DataError` if they changed since planning."""
    loaded = load_dataset(run.data["name"], root, **run.data["options"])
    if loaded.fingerprint != run.data["fingerprint"]:
        what = f"{run.data['name']}: the data have changed since the study was planned"
        expected = f"expected fingerprint {run.data['fingerprint']}, found {loaded.fingerprint}"
        raise DataError(f"{what}, {expected}; repeat the command")
    return loaded


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one torch thread: faster for small models, and the same sums for any number of cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def record(
    run: RunSpec, outcome: Outcome, federation: Federation, environments: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Return the record of one run in plain containers, without times, so that repeated runs give equal records.

    ``environments`` are those of its run batch: several if it was resumed on a machine of another kind.
    """
    # Only some runs have these.
    of_some = {name: value for name in ("untuned", "stopped") if (value := getattr(outcome, name)) is not None}
    return {
        "format": FORMAT,
        "run": run.hash,
        "spec": run.as_dict(),
        "status": outcome.status,
        "diverged": outcome.diverged,
        "scores": outcome.scores,
        "validation": outcome.validation,
        "aggregated": outcome.aggregated,
        **of_some,
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
        "environments": [dict(each) for each in environments],
    }
