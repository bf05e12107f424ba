"""Training of a whole run batch: chunks that fit into a stack, snapshots, and successive halving.

With successive halving (:mod:`bench.train.halving`) every chunk stops at a rung with its last round trained but not
yet evaluated. A setting that is kept is then evaluated as in any other round. A setting that is dropped is evaluated as
a run that ends there, with the tuning and the learning-curve point of a last round.

With ``Budget.patience`` a run that stops early is evaluated in the same way. Its setting leaves the chunk when all runs
of the setting have stopped, and its seed when all runs of the seed have.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal

import torch

from bench.environment import environment
from bench.train import halving
from bench.train.chunks import Chunk, Run
from bench.train.path import mapper_of
from bench.train.results import as_plain, collect_outcomes, from_plain
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import Snapshot, SnapshotPolicy
from bench.train.state import Trained
from bench.types import Outcome, SpecError, content_hash

# The most weights (d x settings x seeds x clients) in one stack; more settings are trained in several stacks.
STACKED_WEIGHTS = 2**24
# Version of the content of a snapshot; a snapshot of another version is ignored and its runs start again.
FORMAT = 5

Tell = Callable[[int, int, float | None], None]  # rounds finished, rounds, lowest aggregated validation loss so far


class Driver:
    """Trains all settings and seeds of a run batch on one path; without ``rungs`` no setting is dropped."""

    def __init__(
        self,
        run_batch: RunBatch,
        path: Literal["stack", "loop"],
        rungs: Sequence[int] = (),
        reduction: int = 0,
        policy: SnapshotPolicy | None = None,
        tell: Tell = lambda finished, rounds, best: None,
    ) -> None:
        if rungs:
            _check(rungs, reduction, run_batch)
        self.run_batch, self.path, self.tell, self.reduction = run_batch, path, tell, reduction
        self.rungs = tuple(rungs) or (run_batch.budget.rounds,)
        self.outcomes: dict[Run, Outcome] = {}
        self.models: dict[Run, tuple[Rounds, Trained, int, int]] = {}  # of runs that were not dropped
        self._lowest = math.inf
        self._snapshot = None if policy is None else self._named(policy)
        self._all = parts(run_batch, path)
        self._waiting = list(self._all)  # settings and seeds of chunks that have not begun
        self._chunks: list[Chunk] = []
        self._passed = 0  # rungs at which settings have been dropped
        self.environments = [environment()]  # in which the run batch was trained, in order
        self._resume()

    def run(self) -> list[Outcome]:
        """Train; return the outcomes of all runs, in settings-major order."""
        for rung in self.rungs[self._passed :]:
            for chunk in list(self._chunks):
                self._advance(chunk, rung)
            while self._waiting:
                self._chunks.append(self._begun(*self._waiting.pop(0)))
                self._advance(self._chunks[-1], rung)
            if rung < self.rungs[-1]:
                self._drop(rung)
        if self._snapshot is not None:
            self._snapshot.forget()
        return [outcome for _, outcome in sorted(self.outcomes.items())]

    def _rounds(self, settings: Sequence[int], seeds: Sequence[int]) -> Rounds:
        run_batch = self.run_batch.of(settings, seeds, self.rungs[-1])
        return Rounds(run_batch, mapper_of(run_batch, self.path))

    def _begun(self, settings: Sequence[int], seeds: Sequence[int]) -> Chunk:
        rounds = self._rounds(settings, seeds)
        return Chunk(settings, seeds, rounds, rounds.begin())

    def _advance(self, chunk: Chunk, rung: int) -> None:
        """Train the chunk up to the rung, or until all its runs have stopped; test it if that is the last one."""
        last = rung == self.rungs[-1]
        while chunk.state.rounds < rung:
            chunk.rounds.train(chunk.state)
            running = self._evaluate(chunk) if last or chunk.state.rounds < rung else chunk
            self._after_round(chunk)
            if running is None:
                return
            chunk = running
        if last:
            self._end(chunk, self._left(chunk), keep=True)
            self._chunks.remove(chunk)

    def _evaluate(self, chunk: Chunk) -> Chunk | None:
        """Evaluate the last trained round and end runs out of patience; return the chunk without them, if any is left.

        They are evaluated once more, as in the last round of a run.
        """
        trained, rounds = chunk.evaluated(), chunk.state.rounds
        patience, place = self.run_batch.budget.patience, self._chunks.index(chunk)
        waited = chunk.without_patience(trained, patience) if patience and rounds < self.rungs[-1] else []
        if stopping := [run for run in waited if run not in self.outcomes]:
            ended = chunk.around(stopping, rounds)
            ended.state.trained = ended.evaluated()
            self._end(ended, stopping, keep=True, stopped=rounds)
        chunk.state.trained = trained
        left = self._left(chunk)
        if stopping:
            self._chunks[place : place + 1] = [chunk.around(left, self.rungs[-1])] if left else []
        return self._chunks[place] if left else None

    def _left(self, chunk: Chunk) -> list[Run]:
        """Return the runs of the chunk that have not ended."""
        return [run for run in chunk.runs if run not in self.outcomes]

    def _drop(self, rung: int) -> None:
        """Keep the better settings of all chunks, and end the others at this rung."""
        evaluated = [chunk.evaluated() for chunk in self._chunks]
        numbers = [number for chunk in self._chunks for number in chunk.settings]
        losses = [_loss(trained, h) for chunk, trained in zip(self._chunks, evaluated, strict=True)
                  for h in range(len(chunk.settings))]  # fmt: skip
        kept = {numbers[position] for position in halving.survivors(losses, self.reduction)}
        chunks, self._chunks = self._chunks, []
        for chunk, trained in zip(chunks, evaluated, strict=True):
            if dropped := [(h, s) for h, s in chunk.runs if h not in kept]:
                ended = chunk.around(dropped, rung)
                ended.state.trained = ended.evaluated()
                self._end(ended, dropped)
            if stay := [(h, s) for h, s in chunk.runs if h in kept]:
                chunk.state.trained = trained
                self._chunks.append(chunk.around(stay, self.rungs[-1]))
        self._passed += 1

    def _end(self, chunk: Chunk, runs: Sequence[Run], *, keep: bool = False, stopped: int | None = None) -> None:
        """Collect the outcomes of some runs of the chunk, and ``keep`` their models."""
        outcomes = collect_outcomes(chunk.rounds, chunk.state.trained)
        for (h, s), run, outcome in zip(chunk.rounds.mapper.indices("HS"), chunk.runs, outcomes, strict=True):
            if run in runs:
                self.outcomes[run] = dataclasses.replace(outcome, stopped=stopped)
                self.models |= {run: (chunk.rounds, chunk.state.trained, h, s)} if keep else {}

    def _after_round(self, chunk: Chunk) -> None:
        """Write a snapshot if one is due, and report progress."""
        rounds = self.rungs[-1]
        if self._snapshot is not None and self._snapshot.due(chunk.state.rounds):
            self._keep(self._snapshot)
        remaining = len(self._waiting) * rounds + sum(rounds - each.state.rounds for each in self._chunks)
        self._lowest = min(self._lowest, chunk.state.trained.best["global"].amin().item())
        total = len(self._all) * rounds
        self.tell(total - remaining, total, self._lowest if math.isfinite(self._lowest) else None)

    # Snapshots ------------------------------------------------------------------------------------------------------

    def _named(self, policy: SnapshotPolicy) -> Snapshot:
        """Return the snapshot that belongs to everything that decides the runs' numbers."""
        run_batch = self.run_batch
        digest = hashlib.sha256(run_batch.initial(run_batch.seeds[0], 0).numpy().tobytes())
        options = dataclasses.asdict(run_batch.algorithm)
        content = {
            "format": FORMAT,
            "torch": torch.__version__,
            "data": [federation.fingerprint for federation in run_batch.data.federations],
            "algorithm": {"name": run_batch.algorithm.registered_name, "options": options},
            "initial": digest.hexdigest(),
            "budget": dataclasses.asdict(run_batch.budget),
            "settings": list(run_batch.settings),
            "seeds": list(run_batch.seeds),
            "rungs": list(self.rungs),
            "reduction": self.reduction,
            "path": self.path,
        }
        identity = content_hash(content)
        file = policy.folder / f"{identity}.safetensors"
        return Snapshot(file, identity, policy.every_rounds, policy.every_seconds)

    def _keep(self, snapshot: Snapshot) -> None:
        tree, chunks = {}, []
        for position, chunk in enumerate(self._chunks):
            tree[str(position)], metadata = chunk.state.parts()
            chunks.append({"settings": list(chunk.settings), "seeds": list(chunk.seeds), **metadata})
        ended = [[*run, as_plain(outcome)] for run, outcome in self.outcomes.items()]
        waiting = [[list(settings), list(seeds)] for settings, seeds in self._waiting]
        progress = {"chunks": chunks, "ended": ended, "waiting": waiting, "passed": self._passed}
        snapshot.write(tree, {**progress, "environments": self.environments})

    def _resume(self) -> None:
        """Restore the state of the snapshot, if there is one."""
        found = self._snapshot.read() if self._snapshot is not None else None
        if found is None:
            return
        tree, metadata = found
        for position, kept in enumerate(metadata["chunks"]):
            settings, seeds = kept["settings"], kept["seeds"]
            rounds = self._rounds(settings, seeds)
            self._chunks.append(Chunk(settings, seeds, rounds, rounds.resumed(tree[str(position)], kept)))
        self.outcomes = {(h, s): from_plain(outcome) for h, s, outcome in metadata["ended"]}
        self._waiting, self._passed = metadata["waiting"], metadata["passed"]
        earlier = metadata["environments"]
        self.environments = [*earlier, *(each for each in self.environments if each not in earlier)]


def parts(run_batch: RunBatch, path: Literal["stack", "loop"]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return the numbers of the settings and of the seeds of each chunk.

    No stack holds more than STACKED_WEIGHTS weights. In a loop, runs that may stop early have a chunk for each seed, so
    that each run leaves its chunk alone.
    """
    setting = run_batch.models[0].size * len(run_batch.seeds) * len(run_batch.models)
    numbers, seeds = range(len(run_batch.settings)), range(len(run_batch.seeds))
    together = max(1, STACKED_WEIGHTS // setting) if path == "stack" else len(numbers)
    width = 1 if path == "loop" and run_batch.budget.patience else len(seeds)
    return [
        (numbers[first : first + together], seeds[column : column + width])
        for first in range(0, len(numbers), together)
        for column in range(0, len(seeds), width)
    ]


def _loss(trained: Trained, h: int) -> float:
    """Return the mean over seeds of a setting's lowest aggregated validation loss; infinite if a run has diverged."""
    lowest = trained.best["global"][h, :, 0].tolist()
    return fmean(math.inf if (h, s) in trained.diverged else loss for s, loss in enumerate(lowest))


def _check(rungs: Sequence[int], reduction: int, run_batch: RunBatch) -> None:
    rounds = run_batch.budget.rounds
    if list(rungs) != sorted(set(rungs)) or rungs[0] < 1 or rungs[-1] != rounds:
        raise SpecError(
            f"rungs = {list(rungs)}: must be strictly increasing numbers of rounds that end with the budget's {rounds}"
        )
    if reduction < 2:
        raise SpecError(f"reduction = {reduction}: expected a whole number of at least 2")
    if run_batch.budget.patience:
        raise SpecError("rungs: runs that are dropped cannot stop early; leave patience out")
    if run_batch.budget.schedule == "cosine":
        raise SpecError("rungs: the cosine schedule depends on the number of rounds; use another schedule")
    if not bool(run_batch.data.counts[1].any()):
        raise SpecError("rungs: settings are dropped by validation loss; set validation above 0")
