"""Which runs are trained together: populations, each the full product of some settings and some seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from bench.types import RunSpec, content_hash

# What an interruption may cost: a population is kept as a whole or not at all. Stacking gains little beyond this.
MAXIMAL_RUNS = 500

Setting = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Population:
    """Runs that differ in settings and seeds only; ``runs`` has all seeds of the first setting first."""

    settings: tuple[dict[str, float], ...]
    seeds: tuple[int, ...]
    runs: tuple[RunSpec, ...]


def plan(runs: Iterable[RunSpec], finished: Collection[str] = ()) -> list[Population]:
    """Pack all ``runs`` whose hash is not in ``finished`` into populations.

    The packing depends on which runs these are, and not on their order: settings that miss the same seeds go
    together, in ascending order, at most :data:`MAXIMAL_RUNS` runs at a time (or one setting, if it has more seeds).
    """
    kinds: dict[str, dict[Setting, dict[int, RunSpec]]] = {}
    for run in runs:
        if run.hash not in finished:
            setting = tuple(sorted(run.hyperparameters.items()))
            kinds.setdefault(_kind(run), {}).setdefault(setting, {})[run.seed] = run
    populations = []
    for _, missing in sorted(kinds.items()):
        together: dict[tuple[int, ...], list[Setting]] = {}
        for setting in sorted(missing):
            together.setdefault(tuple(sorted(missing[setting])), []).append(setting)
        for seeds, settings in sorted(together.items()):
            size = max(1, MAXIMAL_RUNS // len(seeds))
            for start in range(0, len(settings), size):
                part = settings[start : start + size]
                members = tuple(missing[setting][seed] for setting in part for seed in seeds)
                populations.append(Population(tuple(map(dict, part)), seeds, members))
    return populations


def _kind(run: RunSpec) -> str:
    """What runs of one population have in common."""
    shared: dict[str, Any] = {
        "data": run.data,
        "algorithm": run.algorithm,
        "model": run.model,
        "budget": asdict(run.budget),
        "names": sorted(run.hyperparameters),
    }
    return content_hash(shared)
