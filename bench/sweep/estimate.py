"""What a study would cost on this machine, before it runs, from what some of its run batches cost (see calibration).

Of every model on every data set one kind of run batch is timed at least; then more, those least like the timed ones
first, until that would take more than :data:`SHARE` of what the study takes, or than :data:`PATIENCE`. The others cost
what the ones most like them do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from bench.data.files import cards
from bench.spec import StudySpec, options_by_name
from bench.sweep import calibration, training
from bench.sweep.calibration import BatchCost
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import Store
from bench.sweep.study import run_batches

SHARE = 0.15
PATIENCE = 20.0  # seconds

Kinds = Mapping[str, Sequence[PlannedBatch]]  # run batches that cost the same, by what they have in common


@dataclass(frozen=True)
class Missing:
    """Files of a data set that are not on this machine; ``size`` in bytes, None if it is not known of one of them."""

    data: str
    files: tuple[str, ...]
    size: int | None


@dataclass(frozen=True)
class StudyEstimate:
    """What a study would do: ``seconds`` of each run batch of one worker, None where data are missing.

    Each worker takes ``start`` seconds before its first. ``memory`` is what a worker needs and ``disk`` what the
    records take, in bytes; ``timed`` run batches of all were.
    """

    title: str
    runs: int
    to_train: int
    start: float
    seconds: tuple[float, ...] | None
    timed: int
    memory: int
    disk: int
    missing: tuple[Missing, ...]

    def wall(self, workers: int) -> float:
        """Seconds that so many workers take: the longest run batch first to whoever is free."""
        if not self.seconds:
            return 0.0
        busy = [self.start] * workers
        for each in sorted(self.seconds, reverse=True):
            busy[busy.index(min(busy))] += each
        return max(busy)


def estimate(study: StudySpec, store: Store, root: Path | None = None) -> StudyEstimate:
    """What is left to train of a study and what that would cost; trains a few local steps to find out."""
    if missing := _missing(study, root):
        runs = study.runs(study.methods)
        return StudyEstimate(study.title, runs, runs, 0.0, None, 0, 0, 0, missing)
    # First, because looking at data imports some of what a process begins with.
    start = calibration.start({method.data.name for method in study.methods.values()})
    planned, runs = run_batches(study, store.records(), root)
    kinds: dict[str, list[PlannedBatch]] = {}
    for run_batch in planned:
        kinds.setdefault(calibration.kind(run_batch), []).append(run_batch)
    loading: dict[tuple[str, ...], float] = {}
    timed: dict[str, BatchCost] = {}
    costs: dict[str, BatchCost] = {}
    seconds: list[float] = []
    while name := _next(kinds, timed, start + sum(seconds)):
        run_batch = kinds[name][0]
        data = tuple(training.data_key(run) for run in run_batch.first)
        if data not in loading:
            loading[data] = calibration.loading(run_batch, root)
        timed[name] = calibration.cost(run_batch, root)
        costs = {each: timed.get(each) or _similar(each, kinds, timed) for each in kinds}
        seconds = [costs[each].seconds(run_batch) for each, alike in kinds.items() for run_batch in alike]
    return StudyEstimate(
        title=study.title,
        runs=runs,
        to_train=sum(len(run_batch.runs) for run_batch in planned),
        start=start + sum(loading.values()),
        seconds=tuple(seconds),
        timed=sum(len(kinds[name]) for name in timed),
        memory=max((cost.memory for cost in costs.values()), default=0),
        disk=sum(costs[name].record * len(each.runs) for name, alike in kinds.items() for each in alike),
        missing=(),
    )


def _next(kinds: Kinds, timed: Mapping[str, BatchCost], seconds: float) -> str | None:
    """The kind to time next, None if enough is known of a study that takes about so many ``seconds``."""

    def closest(name: str) -> tuple[bool, int]:
        return max((_likeness(name, other, kinds) for other in timed), default=(False, 0))

    def place(name: str) -> tuple[tuple[bool, int], int]:
        run, runs = kinds[name][0].runs[0], sum(len(run_batch.runs) for run_batch in kinds[name])
        return closest(name), -runs * run.budget.rounds

    left = [name for name in kinds if name not in timed]
    if not left:
        return None
    name = min(left, key=place)
    took = [cost.took for cost in timed.values()]
    known, _ = closest(name)
    return None if known and sum(took) + fmean(took) > min(PATIENCE, SHARE * seconds) else name


def _similar(name: str, kinds: Kinds, timed: Mapping[str, BatchCost]) -> BatchCost:
    """The mean cost of the timed kinds that are most like one that was not."""
    likeness = {other: _likeness(name, other, kinds) for other in timed}
    like = [cost for other, cost in timed.items() if likeness[other] == max(likeness.values())]
    # Of as many rounds as the first.
    shares = [like[0].rounds / cost.rounds for cost in like]
    return replace(
        like[0],
        once=fmean(cost.once for cost in like),
        shared=fmean(cost.shared * share for cost, share in zip(like, shares, strict=True)),
        each=fmean(cost.each * share for cost, share in zip(like, shares, strict=True)),
    )


def _likeness(one: str, other: str, kinds: Kinds) -> tuple[bool, int]:
    """Whether two kinds train one model on one data set, and how much else they agree in."""
    mine, theirs = kinds[one][0].runs[0], kinds[other][0].runs[0]
    named = (theirs.data["name"], theirs.model["name"]) == (mine.data["name"], mine.model["name"])
    a_round = replace(theirs.budget, rounds=1) == replace(mine.budget, rounds=1)
    return named, sum((theirs.model == mine.model, theirs.algorithm == mine.algorithm, a_round))


def _missing(study: StudySpec, root: Path | None) -> tuple[Missing, ...]:
    """Files that the study's data sets need and this machine lacks."""
    found = []
    for name, options in options_by_name(method.data for method in study.methods.values()).items():
        lacking = [each for each in cards.read(name).needed(*options) if each.place(root) is None]
        sizes = [each.size for each in lacking]
        size = None if None in sizes else sum(each for each in sizes if each is not None)
        if lacking:
            found.append(Missing(name, tuple(each.names[0] for each in lacking), size))
    return tuple(found)
