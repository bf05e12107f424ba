"""An estimate of a study's cost on this machine, from the cost of some of its run batches (see calibration).

At least one kind of run batch is timed per model and data set. Then more kinds are timed, those least similar to the
timed ones first, until the timing would take more than :data:`SHARE` of the study's time or :data:`PATIENCE`. The other
kinds are assumed to cost as much as the most similar timed ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from operator import eq
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
from bench.types import RunSpec, SpecError, content_hash

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
        return StudyEstimate(study.title, runs, runs, 0.0, None, 0, 0, 0, missing, _notes(study))
    # Measured first, because loading data imports some of the libraries that start-up imports.
    start = calibration.start({method.data.name for method in study.methods.values()})
    records = store.records()
    planned, runs = run_batches(study, records, root)
    kinds: dict[str, list[PlannedBatch]] = {}
    for run_batch in planned:
        kinds.setdefault(calibration.kind(run_batch), []).append(run_batch)
    loading: dict[tuple[str, ...], float] = {}
    costs = _Costs(kinds)
    seconds: list[float] = []
    while name := costs.next(start + sum(seconds)):
        run_batch = kinds[name][0]
        data = tuple(training.data_key(run) for run in run_batch.first)
        if data not in loading:
            loading[data] = calibration.loading(run_batch, root)
        try:
            costs.add(name, calibration.cost(run_batch, root))
        except SpecError as error:
            check_runs(study, records, root)  # its message names the method
            raise SpecError(f"{study.file}: {error}") from None
        seconds = [costs.of(each).seconds(run_batch) for each, members in kinds.items() for run_batch in members]
    # After the timing, which includes the loading of data. Not all methods were timed.
    check_runs(study, records, root)
    return StudyEstimate(
        title=study.title,
        runs=runs,
        to_train=sum(len(run_batch.runs) for run_batch in planned),
        start=start + sum(loading.values()),
        seconds=tuple(seconds),
        timed=sum(len(kinds[name]) for name in costs.timed),
        memory=max((costs.of(name).memory for name in kinds), default=0),
        disk=sum(costs.of(name).record * len(each.runs) for name, members in kinds.items() for each in members),
        missing=(),
        notes=_notes(study),
    )


def _notes(study: StudySpec) -> tuple[str, ...]:
    """Return the notes of the study, and whether the estimate is an upper bound."""
    patient = any(each.budget.patience or "budget.patience" in each.axes for each in study.methods.values())
    return (*notes(study), *["runs may stop early (patience), so times are upper bounds"] * patient)


class _Costs:
    """The costs of kinds of run batches: those that were timed, and for the others the mean of the most similar ones.

    ``nearest`` has these for each kind. Both are updated with each timed kind, so that the time is linear in kinds.
    """

    def __init__(self, kinds: Kinds) -> None:
        self.timed: dict[str, BatchCost] = {}
        self.nearest: dict[str, tuple[str, ...]] = dict.fromkeys(kinds, ())
        self._similarity: dict[str, tuple[bool, int]] = dict.fromkeys(kinds, (False, 0))
        self._parts = {name: _parts(members[0].runs[0]) for name, members in kinds.items()}
        self._rounds = {
            name: sum(len(run_batch.runs) for run_batch in members) * members[0].runs[0].budget.rounds
            for name, members in kinds.items()
        }
        self._mean = cache(self._mean_of)

    def next(self, seconds: float) -> str | None:
        """Return the kind to time next; None if enough is known of a study that takes about ``seconds`` seconds."""
        left = [name for name in self.nearest if name not in self.timed]
        if not left:
            return None
        name = min(left, key=lambda name: (self._similarity[name], -self._rounds[name]))
        took = [cost.took for cost in self.timed.values()]
        known, _ = self._similarity[name]
        return None if known and sum(took) + fmean(took) > min(PATIENCE, SHARE * seconds) else name

    def add(self, name: str, cost: BatchCost) -> None:
        """Add the cost of a kind that was timed."""
        self.timed[name] = cost
        for other, parts in self._parts.items():
            similarity = _similarity(parts, self._parts[name])
            if similarity > self._similarity[other] or not self.nearest[other]:
                self._similarity[other], self.nearest[other] = similarity, (name,)
            elif similarity == self._similarity[other]:
                self.nearest[other] += (name,)

    def of(self, name: str) -> BatchCost:
        """Return the cost of a kind; some kind must have been timed."""
        return self.timed.get(name) or self._mean(self.nearest[name])

    def _mean_of(self, names: tuple[str, ...]) -> BatchCost:
        costs = [self.timed[name] for name in names]
        shares = [costs[0].rounds / cost.rounds for cost in costs]  # convert to the rounds of the first
        return replace(
            costs[0],
            once=fmean(cost.once for cost in costs),
            shared=fmean(cost.shared * share for cost, share in zip(costs, shares, strict=True)),
            each=fmean(cost.each * share for cost, share in zip(costs, shares, strict=True)),
        )


def _parts(run: RunSpec) -> tuple[str, ...]:
    """Return data set and model by name, then the model, the algorithm and a round's budget, as text."""
    a_round = asdict(replace(run.budget, rounds=1))
    return run.data["name"], run.model["name"], *map(content_hash, (run.model, run.algorithm, a_round))


def _similarity(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[bool, int]:
    """Return whether two kinds train the same model on the same data set, and how many other parts are equal."""
    return one[:2] == other[:2], sum(map(eq, one[2:], other[2:]))


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
