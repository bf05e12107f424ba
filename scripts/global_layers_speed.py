"""What Global Layers' two studies cost on this machine: some seeds of one, some rounds of the other, scaled to all.

The times to beat are of the authors' code, on one core of a machine like the one that CI has: 25 minutes of training
for 101 seeds and three methods on the hearts, 368 s for a seed of a federated method on Covertype.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from bench.registry import folder
from bench.spec import StudySpec, read
from bench.sweep import work
from bench.sweep.study import populations

METHODS = ("local", "fedavg", "gl")
SEEDS, ROUNDS = (1, 5), (2, 6)  # of the short runs


def heart() -> float:
    """CPU seconds of all seeds and three methods on the hearts, loaded, trained and scored."""
    study = _study("heart", METHODS)
    return _scaled([_trained(replace(study, seeds=study.seeds[:n])) for n in SEEDS], SEEDS, len(study.seeds))


def covertype() -> float:
    """CPU seconds of one seed of Global Layers on Covertype."""
    study = _study("covertype-prepared", ["gl"])
    study = replace(study, seeds=study.seeds[:1])
    method = study.methods["gl"]

    def of(rounds: int) -> StudySpec:
        return replace(study, methods={"gl": replace(method, budget=replace(method.budget, rounds=rounds))})

    return _scaled([_trained(of(rounds)) for rounds in ROUNDS], ROUNDS, method.budget.rounds)


def _scaled(seconds: Sequence[float], sizes: Sequence[int], whole: int) -> float:
    """What the whole takes: what short runs of two sizes share, and what they differ in as often as needed."""
    return seconds[0] + (seconds[1] - seconds[0]) / (sizes[1] - sizes[0]) * (whole - sizes[0])


def _study(name: str, methods: Sequence[str]) -> StudySpec:
    """The study's methods without its tables."""
    study = read(folder("experiments") / "global_layers" / f"{name}.toml")
    return replace(study, methods={method: study.methods[method] for method in methods}, tables={}, figures={})


def _trained(study: StudySpec) -> float:
    """CPU seconds of this process for all runs of a study, from files to scores."""
    planned, _ = populations(study, {})
    begun = time.process_time()
    for population in planned:
        work.train(population, work.Site(None, None))
    return time.process_time() - begun
