"""The rounds of a run batch, first to last: in parts that a stack holds, kept now and then, worse settings dropped.

At a rung (successive halving, :mod:`bench.train.halving`) every part stops with its last round trained but not yet
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
from bench.train.results import as_plain, from_plain, outcomes
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import Keeping, Snapshot
from bench.train.state import Running, Trained
from bench.types import Outcome, SpecError, content_hash

# A stack holds at most so many weights (d x settings x seeds x clients); more settings are run in several stacks.
STACKED_WEIGHTS = 2**24
# Of what a snapshot holds; one with another number is left alone and its runs start afresh.
FORMAT = 2

Tell = Callable[[int, int, float | None], None]  # rounds finished, rounds, lowest aggregated validation loss so far


@dataclass
class Part:
    """Some of the settings, by their numbers, and how far they are."""

    numbers: Sequence[int]
    rounds: Rounds
    running: Running

    def of(self, numbers: Sequence[int], rounds: int) -> Part:
        """Some of its settings alone, with a budget of so many ``rounds``."""
        places = [self.numbers.index(number) for number in numbers]
        run_batch = self.rounds.run_batch.of(places, rounds)
        mapper = self.rounds.mapper.resized(len(places))
        return Part(numbers, Rounds(run_batch, mapper), self.running.of(mapper, places))


class Race:
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
        self._waiting = list(self._cut)  # settings of parts that have not begun
        self._parts: list[Part] = []
        self._passed = 0  # rungs at which settings have been dropped
        self._resume()

    def run(self) -> list[Outcome]:
        """The outcomes of all runs, settings-major."""
        for rung in self.rungs[self._passed :]:
            for part in list(self._parts):
                self._advance(part, rung)
            while self._waiting:
                self._parts.append(self._begun(self._waiting.pop(0)))
                self._advance(self._parts[-1], rung)
            if rung < self.rungs[-1]:
                self._drop(rung)
        if self._snapshot is not None:
            self._snapshot.forget()
        return [outcome for number in range(len(self.run_batch.settings)) for outcome in self.outcomes[number]]

    def _rounds(self, numbers: Sequence[int]) -> Rounds:
        run_batch = self.run_batch.of(numbers, self.rungs[-1])
        return Rounds(run_batch, mapper_of(run_batch, self.path))

    def _begun(self, numbers: Sequence[int]) -> Part:
        rounds = self._rounds(numbers)
        return Part(numbers, rounds, rounds.begin())

    def _advance(self, part: Part, rung: int) -> None:
        """Train the part up to the rung; what has come to the end is tested."""
        last = rung == self.rungs[-1]
        while part.running.rounds < rung:
            part.rounds.train(part.running)
            if last or part.running.rounds < rung:
                part.running.trained = part.rounds.evaluated(part.running)
            self._after_round(part)
        if last:
            self._end(part)
            self.finished.append((part.numbers, part.rounds, part.running.trained))
            self._parts.remove(part)

    def _drop(self, rung: int) -> None:
        """Let the better settings of all parts go on, and the others end here."""
        going_on = [part.rounds.evaluated(part.running) for part in self._parts]
        numbers = [number for part in self._parts for number in part.numbers]
        losses = [_loss(trained, h) for part, trained in zip(self._parts, going_on, strict=True)
                  for h in range(len(part.numbers))]  # fmt: skip
        kept = {numbers[place] for place in halving.survivors(losses, self.reduction)}
        parts, self._parts = self._parts, []
        for part, trained in zip(parts, going_on, strict=True):
            if gone := [number for number in part.numbers if number not in kept]:
                ended = part.of(gone, rung)
                ended.running.trained = ended.rounds.evaluated(ended.running)
                self._end(ended)
            if stay := [number for number in part.numbers if number in kept]:
                part.running.trained = trained
                self._parts.append(part.of(stay, self.rungs[-1]))
        self._passed += 1

    def _end(self, part: Part) -> None:
        found, seeds = outcomes(part.rounds, part.running.trained), len(self.run_batch.seeds)
        for place, number in enumerate(part.numbers):
            self.outcomes[number] = found[place * seeds : (place + 1) * seeds]

    def _after_round(self, part: Part) -> None:
        rounds = self.rungs[-1]
        if self._snapshot is not None and self._snapshot.due(part.running.rounds):
            self._keep(self._snapshot)
        remaining = len(self._waiting) * rounds + sum(rounds - each.running.rounds for each in self._parts)
        self._lowest = min(self._lowest, part.running.trained.best["global"].amin().item())
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
        tree, parts = {}, []
        for place, part in enumerate(self._parts):
            tree[str(place)], facts = part.running.parts()
            parts.append({"numbers": list(part.numbers), **facts})
        ended = {number: [as_plain(outcome) for outcome in found] for number, found in self.outcomes.items()}
        waiting = [list(numbers) for numbers in self._waiting]
        snapshot.write(tree, {"parts": parts, "ended": ended, "waiting": waiting, "passed": self._passed})

    def _resume(self) -> None:
        """The state as it was kept, if it was."""
        found = self._snapshot.read() if self._snapshot is not None else None
        if found is None:
            return
        tree, facts = found
        for place, kept in enumerate(facts["parts"]):
            rounds = self._rounds(kept["numbers"])
            self._parts.append(Part(kept["numbers"], rounds, rounds.resumed(tree[str(place)], kept)))
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
