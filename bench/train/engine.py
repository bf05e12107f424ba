"""Training of a method's settings and seeds: names resolved, checks made, an execution path selected, rounds run."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench import metrics, registry
from bench.algorithms.base import Algorithm
from bench.settings import resolve
from bench.train.build import build_run_batch
from bench.train.checks import check_alike, checked_seeds
from bench.train.driver import Driver, Tell
from bench.train.path import ExecutionPath, check_path, select_path
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import SnapshotPolicy
from bench.train.state import Trained
from bench.types import Budget, Federation, Outcome, SpecError


@dataclass
class TrainedRuns:
    """An :class:`Outcome` for every run (settings-major), the models of the runs, and the environments of training.

    Models are kept, by the number of the run, only of runs that ended since the call was last interrupted and were not
    dropped: their rounds, results, and position among settings and seeds. A run batch has several environments (see
    :mod:`bench.environment`) if it was resumed on a machine of another kind.
    """

    outcomes: list[Outcome]
    models: Mapping[int, tuple[Rounds, Trained, int, int]]
    environments: list[dict[str, str]]

    def checkpoints(self, run: int) -> Collection[str]:
        """Return the checkpoint rules whose models one run has."""
        return self._find(run)[1].checkpoints

    def personal(self, run: int, client: int, checkpoint: str) -> tuple[Rounds, dict[str, Any]]:
        """Return the personal model's tree of one run and client, with the rounds that trained it."""
        rounds, trained, h, s = self._find(run)
        client = 0 if rounds.run_batch.algorithm.pooled else client
        if not 0 <= client < rounds.run_batch.sizes["C"]:
            raise SpecError(f"there is no client {client}; clients count from 0")
        return rounds, rounds.mapper.at(trained.checkpoints[checkpoint], (h, s, client))

    def server(self, run: int) -> tuple[Rounds, dict[str, Any]]:
        """Return the server's tree after the last round of one run, with the rounds that trained it."""
        rounds, trained, h, s = self._find(run)
        return rounds, rounds.mapper.at(trained.server, (h, s))

    def _find(self, run: int) -> tuple[Rounds, Trained, int, int]:
        if not 0 <= run < len(self.outcomes):
            raise SpecError(f"there is no run {run}; runs count from 0")
        if run not in self.models:
            what = f"the models of run {run} are not kept"
            raise SpecError(f"{what}: it was dropped, or ended before training was resumed")
        return self.models[run]


def train(federation: Federation | Sequence[Federation], **asked: Any) -> list[Outcome]:
    """Train as :func:`run` does, and return the outcomes only."""
    return run(federation, **asked).outcomes


def run(
    federation: Federation | Sequence[Federation],
    *,
    algorithm: str,
    model: str | nn.Module,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: ExecutionPath = "auto",
    rungs: Sequence[int] = (),
    reduction: int = 0,
    snapshots: SnapshotPolicy | None = None,
    tell: Tell = lambda finished, rounds, best: None,
) -> TrainedRuns:
    """Train every setting with every seed; return outcomes (settings-major) and models.

    ``model`` is a registered name, or a module whose weights are the initial weights of every run. Of several
    federations, one for each seed, each may have its own samples; they must agree in everything else.

    With ``rungs`` (numbers of rounds, the last one the budget's) settings are dropped by successive halving: at every
    rung but the last, the 1 / ``reduction`` settings with the lowest validation losses continue. The outcome of a
    dropped setting equals that of a run with as many rounds as its rung.

    With ``snapshots`` the state is written to disk from time to time. The same call resumes from the last snapshot, and
    removes it at the end. ``tell`` is called after every round with the number of finished rounds, the total, and the
    lowest aggregated validation loss so far.
    """
    check_path(path)
    run_batch = prepare(
        federation, algorithm=algorithm, model=model, settings=settings, seeds=seeds, budget=budget,
        model_options=model_options, algorithm_options=algorithm_options,
    )  # fmt: skip
    with _denormals_flushed(), warnings.catch_warnings():
        # torch's, on operations of a stack that it maps one by one; the user can do nothing about it
        warnings.filterwarnings("ignore", "There is a performance drop because", UserWarning)
        driver = Driver(run_batch, select_path(run_batch, path), rungs, reduction, snapshots, tell)
        outcomes, models = driver.run(), driver.models
        numbered = {h * len(seeds) + s: kept for (h, s), kept in models.items()}
        return TrainedRuns(outcomes, numbered, driver.environments)


def prepare(
    federation: Federation | Sequence[Federation],
    *,
    algorithm: str,
    model: str | nn.Module,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
) -> RunBatch:
    """Check a request and return its run batch, without training.

    Raises :class:`SpecError` or :class:`DataError` for everything that cannot be trained, among others a model that
    does not fit the data. Planning a study calls this, too.
    """
    seeds = checked_seeds(seeds, budget)
    federations = [federation] * len(seeds) if isinstance(federation, Federation) else list(federation)
    check_alike(federations, seeds)
    resolved = [resolve(algorithm, budget.optimizer, setting, budget.schedule) for setting in settings]
    if not resolved:
        raise SpecError("empty grid: give every hyper-parameter at least one value")
    for name in federations[0].metrics:
        metrics.check(name)
    registry.check_options("algorithms", algorithm, algorithm_options or {})
    kind: type[Algorithm] = registry.load("algorithms", algorithm)
    options = kind(**(algorithm_options or {}))
    run_batch = build_run_batch(federations, options, algorithm, model, model_options, resolved, seeds, budget)
    if budget.patience and not bool(run_batch.data.counts[1].any()):
        raise SpecError(f"patience = {budget.patience}: runs stop by validation loss; set validation above 0")
    return run_batch


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Treat float32 numbers below 1.2e-38 (denormals) as zero.

    Arithmetic with denormals takes a processor a hundred times as long; the gradients of a model that overfits are full
    of them.
    """
    before = not bool(torch.tensor(1e-40) * 1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
