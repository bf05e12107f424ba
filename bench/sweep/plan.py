"""Division of runs into run batches: each is the full product of some settings and some seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from bench.types import RunSpec, content_hash

# A run batch is recorded as a whole or not at all, so this limits the loss at an interruption. Larger stacks are
# hardly faster.
MAX_BATCH_RUNS = 500
# Limit of (numbers in one sample) x runs: stacking does not speed up large inputs, which workers share better.
MAX_BATCH_NUMBERS = 2**15
# If each seed has its own data, the data of all seeds of a run batch are in memory at once.
MAX_FEDERATIONS = 26

SettingKey = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class PlannedBatch:
    """Runs that differ in settings and seeds only; ``runs`` has all seeds of the first setting first.

    With ``rungs`` (numbers of rounds) the worst settings are dropped at each rung, see :mod:`bench.train.halving`.
    """

    settings: tuple[dict[str, float], ...]
    seeds: tuple[int, ...]
    runs: tuple[RunSpec, ...]
    rungs: tuple[int, ...] = ()
    reduction: int = 0

    @cached_property
    def name(self) -> str:
        """The hash of the runs' hashes, which names the file of records and the lease."""
        return batch_name([run.hash for run in self.runs])

    @property
    def first(self) -> tuple[RunSpec, ...]:
        """The runs of the first setting, one per seed; together they use all data of the run batch."""
        return self.runs[: len(self.seeds)]

    def part(self, settings: slice, seeds: slice) -> PlannedBatch:
        """Return the run batch of some of the settings and seeds."""
        rows = range(0, len(self.runs), len(self.seeds))[settings]
        runs = tuple(run for first in rows for run in self.runs[first : first + len(self.seeds)][seeds])
        return replace(self, settings=self.settings[settings], seeds=self.seeds[seeds], runs=runs)

    def halves(self) -> tuple[PlannedBatch, ...]:
        """Return two run batches of half the settings, or half the seeds of a single setting.

        Return nothing for a single run, and with rungs, where settings must be compared with each other.
        """
        if len(self.runs) == 1 or self.rungs:
            return ()
        whole = slice(None)
        if len(self.settings) > 1:
            cut = len(self.settings) // 2
            return self.part(slice(cut), whole), self.part(slice(cut, None), whole)
        cut = len(self.seeds) // 2
        return self.part(whole, slice(cut)), self.part(whole, slice(cut, None))


def batch_name(runs: Iterable[str]) -> str:
    """Return the name of the run batch with these hashes of runs."""
    return content_hash({"runs": list(runs)})


def with_rounds(run: RunSpec, rounds: int) -> RunSpec:
    """Return the run with a budget of ``rounds``."""
    return run if rounds == run.budget.rounds else replace(run, budget=replace(run.budget, rounds=rounds))


def plan(runs: Iterable[RunSpec], finished: Collection[str] = (), *, sample: int = 1) -> list[PlannedBatch]:
    """Divide ``runs`` into run batches; leave out run batches whose runs are all ``finished`` (hashes).

    ``sample`` is the count of numbers in one input. The division depends on all of ``runs``, neither on their order nor
    on the finished runs, so an interrupted study continues with the run batches of an uninterrupted one. Only if
    another study has finished a part of a run batch, its other runs are divided again.
    """
    run_batches = []
    for whole in _pack(runs, sample):
        missing = [run for run in whole.runs if run.hash not in finished]
        if missing:
            run_batches += [whole] if len(missing) == len(whole.runs) else _pack(missing, sample)
    return run_batches


def _pack(runs: Iterable[RunSpec], sample: int) -> list[PlannedBatch]:
    """Group settings with the same seeds, in ascending order, up to the limits of a run batch."""
    groups: dict[str, dict[SettingKey, dict[int, RunSpec]]] = {}
    for run in runs:
        setting = tuple(sorted(run.hyperparameters.items()))
        groups.setdefault(common_hash(run), {}).setdefault(setting, {})[run.seed] = run
    run_batches = []
    for _, members in sorted(groups.items()):
        together: dict[tuple[int, ...], list[SettingKey]] = {}
        for setting in sorted(members):
            together.setdefault(tuple(sorted(members[setting])), []).append(setting)
        for seeds, settings in sorted(together.items()):
            some = members[settings[0]][seeds[0]]
            largest = max(1, min(MAX_BATCH_RUNS, MAX_BATCH_NUMBERS // sample))
            per_part = min(len(seeds), largest, MAX_FEDERATIONS if some.data["by_seed"] else largest)
            for first in range(0, len(seeds), per_part):
                part = seeds[first : first + per_part]
                size = max(1, largest // len(part))
                for start in range(0, len(settings), size):
                    chosen = settings[start : start + size]
                    included = tuple(members[setting][seed] for setting in chosen for seed in part)
                    run_batches.append(PlannedBatch(tuple(map(dict, chosen)), part, included))
    return run_batches


def common_hash(run: RunSpec) -> str:
    """Return a hash of everything that the runs of one run batch share; data may differ in options set by the seed."""
    by_seed = run.data["by_seed"]
    options = {name: value for name, value in run.data["options"].items() if name not in by_seed}
    shared: dict[str, Any] = {
        "data": {**run.data, "options": options, "fingerprint": None if by_seed else run.data["fingerprint"]},
        "algorithm": run.algorithm,
        "model": run.model,
        "budget": asdict(run.budget),
        "names": sorted(run.hyperparameters),
    }
    return content_hash(shared)
