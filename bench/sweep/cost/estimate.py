"""An estimate of a study's cost on this machine, from the cost of some of its run batches (see calibration).

At least one kind of run batch is timed per model and data set. Then more kinds are timed, those least similar to the
timed ones first, until the timing would take more than :data:`SHARE` of the study's time or :data:`PATIENCE`. The other
kinds are assumed to cost as much as the most similar timed ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from bench.data.files import cards
from bench.data.files.locate import at_hand
from bench.spec import StudySpec, options_by_name
from bench.sweep import training
from bench.sweep.cost import calibration
from bench.sweep.cost.calibration import BatchCost
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import Store
from bench.sweep.study import check_runs, notes, run_batches
from bench.types import SpecError

SHARE = 0.15
PATIENCE = 20.0  # seconds

Kinds = Mapping[str, Sequence[PlannedBatch]]  # run batches of equal cost, by their kind


@dataclass(frozen=True)
class MissingFiles:
    """Files of a data set that are not on this machine; ``size`` in bytes, None if the size of a file is unknown."""

    data: str
    files: tuple[str, ...]
    size: int | None


@dataclass(frozen=True)
class StudyEstimate:
    """The estimated cost of a study: ``seconds`` of each run batch on one worker, None if data are missing.

    Each worker needs ``start`` seconds before its first run batch. ``memory`` of a worker and ``disk`` space of the
    records are in bytes. ``timed`` counts the run batches of timed kinds. ``notes`` are lines to print.
    """

    title: str
    runs: int
    to_train: int
    start: float
    seconds: tuple[float, ...] | None
    timed: int
    memory: int
    disk: int
    missing: tuple[MissingFiles, ...]
    notes: tuple[str, ...] = ()

    def wall(self, workers: int) -> float:
        """Return the seconds that ``workers`` processes take if a free worker gets the longest remaining run batch."""
        if not self.seconds:
            return 0.0
        busy = [self.start] * workers
        for each in sorted(self.seconds, reverse=True):
            busy[busy.index(min(busy))] += each
        return max(busy)


def estimate(study: StudySpec, store: Store, root: Path | None = None) -> StudyEstimate:
    """Return what is left to train of a study and its cost; this trains a few local steps."""
    if missing := _missing(study, root):
        runs = study.runs(study.methods)
        return StudyEstimate(study.title, runs, runs, 0.0, None, 0, 0, 0, missing, tuple(notes(study)))
    # Measured first, because loading data imports some of the libraries that start-up imports.
    start = calibration.start({method.data.name for method in study.methods.values()})
    records = store.records()
    planned, runs = run_batches(study, records, root)
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
        try:
            timed[name] = calibration.cost(run_batch, root)
        except SpecError as error:
            check_runs(study, records, root)  # its message names the method
            raise SpecError(f"{study.file}: {error}") from None
        costs = {each: timed.get(each) or _similar(each, kinds, timed) for each in kinds}
        seconds = [costs[each].seconds(run_batch) for each, members in kinds.items() for run_batch in members]
    # After the timing, which includes the loading of data. Not all methods were timed.
    check_runs(study, records, root)
    return StudyEstimate(
        title=study.title,
        runs=runs,
        to_train=sum(len(run_batch.runs) for run_batch in planned),
        start=start + sum(loading.values()),
        seconds=tuple(seconds),
        timed=sum(len(kinds[name]) for name in timed),
        memory=max((cost.memory for cost in costs.values()), default=0),
        disk=sum(costs[name].record * len(each.runs) for name, members in kinds.items() for each in members),
        missing=(),
        notes=tuple(notes(study)),
    )


def _next(kinds: Kinds, timed: Mapping[str, BatchCost], seconds: float) -> str | None:
    """Return the kind to time next; None if enough is known of a study that takes about ``seconds`` seconds."""

    def closest(name: str) -> tuple[bool, int]:
        return max((_similarity(name, other, kinds) for other in timed), default=(False, 0))

    def priority(name: str) -> tuple[tuple[bool, int], int]:
        run, runs = kinds[name][0].runs[0], sum(len(run_batch.runs) for run_batch in kinds[name])
        return closest(name), -runs * run.budget.rounds

    left = [name for name in kinds if name not in timed]
    if not left:
        return None
    name = min(left, key=priority)
    took = [cost.took for cost in timed.values()]
    known, _ = closest(name)
    return None if known and sum(took) + fmean(took) > min(PATIENCE, SHARE * seconds) else name


def _similar(name: str, kinds: Kinds, timed: Mapping[str, BatchCost]) -> BatchCost:
    """Return the mean cost of the timed kinds that are most similar to a kind that was not timed."""
    similarity = {other: _similarity(name, other, kinds) for other in timed}
    nearest = [cost for other, cost in timed.items() if similarity[other] == max(similarity.values())]
    shares = [nearest[0].rounds / cost.rounds for cost in nearest]  # convert to the rounds of the first
    return replace(
        nearest[0],
        once=fmean(cost.once for cost in nearest),
        shared=fmean(cost.shared * share for cost, share in zip(nearest, shares, strict=True)),
        each=fmean(cost.each * share for cost, share in zip(nearest, shares, strict=True)),
    )


def _similarity(one: str, other: str, kinds: Kinds) -> tuple[bool, int]:
    """Return whether two kinds train the same model on the same data set, and how many other parts are equal."""
    mine, theirs = kinds[one][0].runs[0], kinds[other][0].runs[0]
    named = (theirs.data["name"], theirs.model["name"]) == (mine.data["name"], mine.model["name"])
    a_round = replace(theirs.budget, rounds=1) == replace(mine.budget, rounds=1)
    return named, sum((theirs.model == mine.model, theirs.algorithm == mine.algorithm, a_round))


def _missing(study: StudySpec, root: Path | None) -> tuple[MissingFiles, ...]:
    """Return the files that the study's data sets need and this machine lacks."""
    found = []
    for name, options in options_by_name(method.data for method in study.methods.values()).items():
        lacking = [each for each in cards.read(name).needed(*options) if at_hand(each, root) is None]
        sizes = [each.size for each in lacking]
        size = None if None in sizes else sum(each for each in sizes if each is not None)
        if lacking:
            found.append(MissingFiles(name, tuple(each.names[0] for each in lacking), size))
    return tuple(found)
