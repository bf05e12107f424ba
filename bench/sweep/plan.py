"""Which runs are trained together: run batches, each the full product of some settings and some seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from bench.types import RunSpec, content_hash

# What an interruption may cost: a run batch is kept as a whole or not at all. Stacking gains little beyond this,
MAX_BATCH_RUNS = 500
# and nothing for large inputs: numbers of one sample times runs. Such runs are better spread over workers.
MAX_BATCH_NUMBERS = 2**15
# Where each seed has data of its own, all of them are in memory at once.
MAX_FEDERATIONS = 26

SettingKey = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class PlannedBatch:
    """Runs that differ in settings and seeds only; ``runs`` has all seeds of the first setting first.

    With ``rungs`` (numbers of rounds) the worse settings are dropped at each of them, see bench.sweep.search.
    """

    settings: tuple[dict[str, float], ...]
    seeds: tuple[int, ...]
    runs: tuple[RunSpec, ...]
    rungs: tuple[int, ...] = ()
    reduction: int = 0

    @cached_property
    def name(self) -> str:
        """The hash of the runs' hashes: what its file of records and its lease are called."""
        return name([run.hash for run in self.runs])

    @property
    def first(self) -> tuple[RunSpec, ...]:
        """The runs of the first setting, one for each seed: what they see is all that the run batch sees."""
        return self.runs[: len(self.seeds)]

    def part(self, settings: slice, seeds: slice) -> PlannedBatch:
        """The run batch of some of its settings and seeds."""
        rows = range(0, len(self.runs), len(self.seeds))[settings]
        runs = tuple(run for first in rows for run in self.runs[first : first + len(self.seeds)][seeds])
        return replace(self, settings=self.settings[settings], seeds=self.seeds[seeds], runs=runs)

    def halves(self) -> tuple[PlannedBatch, ...]:
        """Two run batches of half the settings, or the seeds of a single setting; empty if it is one run or a race."""
        if len(self.runs) == 1 or self.rungs:
            return ()
        whole = slice(None)
        if len(self.settings) > 1:
            cut = len(self.settings) // 2
            return self.part(slice(cut), whole), self.part(slice(cut, None), whole)
        cut = len(self.seeds) // 2
        return self.part(whole, slice(cut)), self.part(whole, slice(cut, None))


def name(runs: Iterable[str]) -> str:
    return content_hash({"runs": list(runs)})


def with_rounds(run: RunSpec, rounds: int) -> RunSpec:
    """The run with a budget of so many rounds."""
    return run if rounds == run.budget.rounds else replace(run, budget=replace(run.budget, rounds=rounds))


def plan(runs: Iterable[RunSpec], finished: Collection[str] = (), *, sample: int = 1) -> list[PlannedBatch]:
    """Pack ``runs`` into run batches and leave out those of which all are ``finished`` (hashes).

    ``sample`` counts the numbers of one input. The packing depends on all of ``runs``, not on their order and not on
    what is finished: an interrupted study goes on with the run batches that an uncut one has. Only a run batch that
    is finished in part, by another study, is packed anew without these runs.
    """
    run_batches = []
    for whole in _pack(runs, sample):
        missing = [run for run in whole.runs if run.hash not in finished]
        if missing:
            run_batches += [whole] if len(missing) == len(whole.runs) else _pack(missing, sample)
    return run_batches


def _pack(runs: Iterable[RunSpec], sample: int) -> list[PlannedBatch]:
    """Settings that have the same seeds go together, in ascending order, as many as a run batch holds."""
    kinds: dict[str, dict[SettingKey, dict[int, RunSpec]]] = {}
    for run in runs:
        setting = tuple(sorted(run.hyperparameters.items()))
        kinds.setdefault(_kind(run), {}).setdefault(setting, {})[run.seed] = run
    run_batches = []
    for _, members in sorted(kinds.items()):
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


def _kind(run: RunSpec) -> str:
    """What runs of one run batch have in common; data that follow the seed differ in these options only."""
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
