"""The rounds of a run batch, first to last: in chunks that a stack holds, kept now and then, worse settings dropped.

At a rung (successive halving, :mod:`bench.train.halving`) every chunk stops with its last round trained but not yet
evaluated. A setting that goes on is then evaluated as in any round; one that is dropped as a run that ends there, with
the tuning and the point of the learning curve that this has.
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

from bench.train import halving
from bench.train.path import mapper_of
from bench.train.results import as_plain, collect_outcomes, from_plain
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import Keeping, Snapshot
from bench.train.state import RunState, Trained
from bench.types import Outcome, SpecError, content_hash

# A stack holds at most so many weights (d x settings x seeds x clients); more settings are run in several stacks.
STACKED_WEIGHTS = 2**24
# Of what a snapshot holds; one with another number is left alone and its runs start afresh.
FORMAT = 2

Tell = Callable[[int, int, float | None], None]  # rounds finished, rounds, lowest aggregated validation loss so far


@dataclass
class Chunk:
    """Some of the settings, by their numbers, and how far they are."""

    numbers: Sequence[int]
    rounds: Rounds
    state: RunState

    def of(self, numbers: Sequence[int], rounds: int) -> Chunk:
        """Some of its settings alone, with a budget of so many ``rounds``."""
        places = [self.numbers.index(number) for number in numbers]
        run_batch = self.rounds.run_batch.of(places, rounds)
        mapper = self.rounds.mapper.resized(len(places))
        return Chunk(numbers, Rounds(run_batch, mapper), self.state.of(mapper, places))


class Driver:
    """All settings and seeds of a run batch, trained with one path; without ``rungs`` no setting is dropped."""

    def __init__(
        self,
        run_batch: RunBatch,
        path: Literal["stack", "loop"],
        rungs: Sequence[int] = (),
        reduction: int = 0,
        keeping: Keeping | None = None,
        tell: Tell = lambda finished, rounds, best: None,
    ) -> None:
        if rungs:
            _check(rungs, reduction, run_batch)
        self.run_batch, self.path, self.tell, self.reduction = run_batch, path, tell, reduction
        self.rungs = tuple(rungs) or (run_batch.budget.rounds,)
        self.outcomes: dict[int, list[Outcome]] = {}  # of all seeds, by the number of the setting
        self.finished: list[tuple[Sequence[int], Rounds, Trained]] = []  # models of settings that were not dropped
        self._lowest = math.inf
        self._snapshot = None if keeping is None else self._named(keeping)
        self._cut = cut(run_batch, path)
        self._waiting = list(self._cut)  # settings of chunks that have not begun
        self._chunks: list[Chunk] = []
        self._passed = 0  # rungs at which settings have been dropped
        self._resume()

    def run(self) -> list[Outcome]:
        """The outcomes of all runs, settings-major."""
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
        """Train the chunk up to the rung; what has come to the end is tested."""
        last = rung == self.rungs[-1]
        while chunk.state.rounds < rung:
            chunk.rounds.train(chunk.state)
            if last or chunk.state.rounds < rung:
                chunk.state.trained = chunk.rounds.evaluated(chunk.state)
            self._after_round(chunk)
        if last:
            self._end(chunk)
            self.finished.append((chunk.numbers, chunk.rounds, chunk.state.trained))
            self._chunks.remove(chunk)

    def _drop(self, rung: int) -> None:
        """Let the better settings of all chunks go on, and the others end here."""
        going_on = [chunk.rounds.evaluated(chunk.state) for chunk in self._chunks]
        numbers = [number for chunk in self._chunks for number in chunk.numbers]
        losses = [_loss(trained, h) for chunk, trained in zip(self._chunks, going_on, strict=True)
                  for h in range(len(chunk.numbers))]  # fmt: skip
        kept = {numbers[place] for place in halving.survivors(losses, self.reduction)}
        chunks, self._chunks = self._chunks, []
        for chunk, trained in zip(chunks, going_on, strict=True):
            if gone := [number for number in chunk.numbers if number not in kept]:
                ended = chunk.of(gone, rung)
                ended.state.trained = ended.rounds.evaluated(ended.state)
                self._end(ended)
            if stay := [number for number in chunk.numbers if number in kept]:
                chunk.state.trained = trained
                self._chunks.append(chunk.of(stay, self.rungs[-1]))
        self._passed += 1

    def _end(self, chunk: Chunk) -> None:
        found, seeds = collect_outcomes(chunk.rounds, chunk.state.trained), len(self.run_batch.seeds)
        for place, number in enumerate(chunk.numbers):
            self.outcomes[number] = found[place * seeds : (place + 1) * seeds]

    def _after_round(self, chunk: Chunk) -> None:
        rounds = self.rungs[-1]
        if self._snapshot is not None and self._snapshot.due(chunk.state.rounds):
            self._keep(self._snapshot)
        remaining = len(self._waiting) * rounds + sum(rounds - each.state.rounds for each in self._chunks)
        self._lowest = min(self._lowest, chunk.state.trained.best["global"].amin().item())
        total = len(self._cut) * rounds
        self.tell(total - remaining, total, self._lowest if math.isfinite(self._lowest) else None)

    # Snapshots ------------------------------------------------------------------------------------------------------

    def _named(self, keeping: Keeping) -> Snapshot:
        """Where the state is kept, named by everything that decides it."""
        run_batch = self.run_batch
        digest = hashlib.sha256(run_batch.initial(run_batch.seeds[0], 0).numpy().tobytes())
        options = dataclasses.asdict(run_batch.algorithm)
        content = {
            "format": FORMAT,
            "torch": torch.__version__,
            "data": [federation.fingerprint for federation in run_batch.federations],
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
        file = keeping.folder / f"{identity}.safetensors"
        return Snapshot(file, identity, keeping.every_rounds, keeping.every_seconds)

    def _keep(self, snapshot: Snapshot) -> None:
        tree, chunks = {}, []
        for place, chunk in enumerate(self._chunks):
            tree[str(place)], facts = chunk.state.parts()
            chunks.append({"numbers": list(chunk.numbers), **facts})
        ended = {number: [as_plain(outcome) for outcome in found] for number, found in self.outcomes.items()}
        waiting = [list(numbers) for numbers in self._waiting]
        snapshot.write(tree, {"chunks": chunks, "ended": ended, "waiting": waiting, "passed": self._passed})

    def _resume(self) -> None:
        """The state as it was kept, if it was."""
        found = self._snapshot.read() if self._snapshot is not None else None
        if found is None:
            return
        tree, facts = found
        for place, kept in enumerate(facts["chunks"]):
            rounds = self._rounds(kept["numbers"])
            self._chunks.append(Chunk(kept["numbers"], rounds, rounds.resumed(tree[str(place)], kept)))
        self.outcomes = {int(number): [from_plain(each) for each in kept] for number, kept in facts["ended"].items()}
        self._waiting, self._passed = facts["waiting"], facts["passed"]


def cut(run_batch: RunBatch, path: Literal["stack", "loop"]) -> list[Sequence[int]]:
    """The numbers of the settings, cut so that no stack holds more than STACKED_WEIGHTS weights."""
    setting = run_batch.models[0].size * len(run_batch.seeds) * len(run_batch.models)
    numbers = range(len(run_batch.settings))
    together = max(1, STACKED_WEIGHTS // setting) if path == "stack" else len(numbers)
    return [numbers[first : first + together] for first in range(0, len(numbers), together)]


def _loss(trained: Trained, h: int) -> float:
    """The mean over seeds of a setting's lowest aggregated validation loss so far; infinite if one has diverged."""
    lowest = trained.best["global"][h, :, 0].tolist()
    return fmean(math.inf if (h, s) in trained.diverged else loss for s, loss in enumerate(lowest))


def _check(rungs: Sequence[int], reduction: int, run_batch: RunBatch) -> None:
    rounds = run_batch.budget.rounds
    if list(rungs) != sorted(set(rungs)) or rungs[0] < 1 or rungs[-1] != rounds:
        raise SpecError(f"rungs = {list(rungs)}: expected rising numbers of rounds, the last one the budget's {rounds}")
    if reduction < 2:
        raise SpecError(f"reduction = {reduction}: expected a whole number of at least 2")
    if not bool(run_batch.counts[1].any()):
        raise SpecError("rungs drop settings by validation loss: set validation above 0")
