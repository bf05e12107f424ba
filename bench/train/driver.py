"""Training of a whole run batch: chunks that fit into a stack, snapshots, and successive halving.

With successive halving (:mod:`bench.train.halving`) every chunk stops at a rung with its last round trained but not
yet evaluated. A setting that is kept is then evaluated as in any other round. A setting that is dropped is evaluated as
a run that ends there, with the tuning and the learning-curve point of a last round.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import torch

from bench.environment import environment
from bench.train import evaluate, halving
from bench.train.path import mapper_of
from bench.train.results import as_plain, collect_outcomes, from_plain
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import Snapshot, SnapshotPolicy
from bench.train.state import RunState, Trained
from bench.types import Outcome, SpecError, content_hash

# The most weights (d x settings x seeds x clients) in one stack; more settings are trained in several stacks.
STACKED_WEIGHTS = 2**24
# Version of the content of a snapshot; a snapshot of another version is ignored and its runs start again.
FORMAT = 4

Tell = Callable[[int, int, float | None], None]  # rounds finished, rounds, lowest aggregated validation loss so far


@dataclass
class Chunk:
    """Some of the settings, by their numbers, and their state."""

    numbers: Sequence[int]
    rounds: Rounds
    state: RunState

    def of(self, numbers: Sequence[int], rounds: int) -> Chunk:
        """Return some of its settings, with a budget of ``rounds`` rounds."""
        positions = [self.numbers.index(number) for number in numbers]
        run_batch = self.rounds.run_batch.of(positions, rounds)
        mapper = self.rounds.mapper.resized(len(positions))
        return Chunk(numbers, Rounds(run_batch, mapper), self.state.of(mapper, positions))

    def evaluated(self) -> Trained:
        """Validate the models after the last trained round, and test them if the learning curve has a point there."""
        trained = self.rounds.evaluated(self.state)
        if self.state.rounds not in self.rounds.run_batch.budget.tested:
            return trained
        point = evaluate.curve_point(self.rounds, trained.checkpoints["latest"])
        return dataclasses.replace(trained, curves=[*trained.curves, point])


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
        self.outcomes: dict[int, list[Outcome]] = {}  # of all seeds, by the number of the setting
        self.finished: list[tuple[Sequence[int], Rounds, Trained]] = []  # models of settings that were not dropped
        self._lowest = math.inf
        self._snapshot = None if policy is None else self._named(policy)
        self._all = chunk_numbers(run_batch, path)
        self._waiting = list(self._all)  # settings of chunks that have not begun
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
                self._chunks.append(self._begun(self._waiting.pop(0)))
                self._advance(self._chunks[-1], rung)
            if rung < self.rungs[-1]:
                self._drop(rung)
        if self._snapshot is not None:
            self._snapshot.forget()
        return [outcome for number in range(len(self.run_batch.settings)) for outcome in self.outcomes[number]]

    def _rounds(self, numbers: Sequence[int]) -> Rounds:
        run_batch = self.run_batch.of(numbers, self.rungs[-1])
        return Rounds(run_batch, mapper_of(run_batch, self.path))

    def _begun(self, numbers: Sequence[int]) -> Chunk:
        rounds = self._rounds(numbers)
        return Chunk(numbers, rounds, rounds.begin())

    def _advance(self, chunk: Chunk, rung: int) -> None:
        """Train the chunk up to the rung; test it if that is the last one."""
        last = rung == self.rungs[-1]
        while chunk.state.rounds < rung:
            chunk.rounds.train(chunk.state)
            if last or chunk.state.rounds < rung:
                chunk.state.trained = chunk.evaluated()
            self._after_round(chunk)
        if last:
            self._end(chunk)
            self.finished.append((chunk.numbers, chunk.rounds, chunk.state.trained))
            self._chunks.remove(chunk)

    def _drop(self, rung: int) -> None:
        """Keep the better settings of all chunks, and end the others at this rung."""
        evaluated = [chunk.evaluated() for chunk in self._chunks]
        numbers = [number for chunk in self._chunks for number in chunk.numbers]
        losses = [_loss(trained, h) for chunk, trained in zip(self._chunks, evaluated, strict=True)
                  for h in range(len(chunk.numbers))]  # fmt: skip
        kept = {numbers[position] for position in halving.survivors(losses, self.reduction)}
        chunks, self._chunks = self._chunks, []
        for chunk, trained in zip(chunks, evaluated, strict=True):
            if dropped := [number for number in chunk.numbers if number not in kept]:
                ended = chunk.of(dropped, rung)
                ended.state.trained = ended.evaluated()
                self._end(ended)
            if stay := [number for number in chunk.numbers if number in kept]:
                chunk.state.trained = trained
                self._chunks.append(chunk.of(stay, self.rungs[-1]))
        self._passed += 1

    def _end(self, chunk: Chunk) -> None:
        outcomes, seeds = collect_outcomes(chunk.rounds, chunk.state.trained), len(self.run_batch.seeds)
        for position, number in enumerate(chunk.numbers):
            self.outcomes[number] = outcomes[position * seeds : (position + 1) * seeds]

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
            chunks.append({"numbers": list(chunk.numbers), **metadata})
        ended = {number: [as_plain(outcome) for outcome in found] for number, found in self.outcomes.items()}
        waiting = [list(numbers) for numbers in self._waiting]
        progress = {"chunks": chunks, "ended": ended, "waiting": waiting, "passed": self._passed}
        snapshot.write(tree, {**progress, "environments": self.environments})

    def _resume(self) -> None:
        """Restore the state of the snapshot, if there is one."""
        found = self._snapshot.read() if self._snapshot is not None else None
        if found is None:
            return
        tree, metadata = found
        for position, kept in enumerate(metadata["chunks"]):
            rounds = self._rounds(kept["numbers"])
            self._chunks.append(Chunk(kept["numbers"], rounds, rounds.resumed(tree[str(position)], kept)))
        self.outcomes = {int(number): [from_plain(each) for each in kept] for number, kept in metadata["ended"].items()}
        self._waiting, self._passed = metadata["waiting"], metadata["passed"]
        earlier = metadata["environments"]
        self.environments = [*earlier, *(each for each in self.environments if each not in earlier)]


def chunk_numbers(run_batch: RunBatch, path: Literal["stack", "loop"]) -> list[Sequence[int]]:
    """Return the numbers of the settings of each chunk; no stack holds more than STACKED_WEIGHTS weights."""
    setting = run_batch.models[0].size * len(run_batch.seeds) * len(run_batch.models)
    numbers = range(len(run_batch.settings))
    together = max(1, STACKED_WEIGHTS // setting) if path == "stack" else len(numbers)
    return [numbers[first : first + together] for first in range(0, len(numbers), together)]


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
    if run_batch.budget.schedule == "cosine":
        raise SpecError("rungs: the cosine schedule depends on the number of rounds; use another schedule")
    if not bool(run_batch.data.counts[1].any()):
        raise SpecError("rungs: settings are dropped by validation loss; set validation above 0")
