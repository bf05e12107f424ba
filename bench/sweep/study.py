"""A study, run: settings asked for, what the store lacks trained and kept, all runs handed back by method."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import registry, settings
from bench.data.files import download
from bench.data.metadata import Facts, facts
from bench.spec import Choice, Method, Setting, StudySpec
from bench.sweep import noted, search
from bench.sweep.plan import PlannedBatch, plan, with_rounds
from bench.sweep.runner import Runner
from bench.sweep.selection import SearchResult, best_validation
from bench.sweep.store import Store
from bench.train import halving
from bench.types import RunSpec, SpecError, content_hash, nearest

Records = Mapping[str, Mapping[str, Any]]
Lookup = Callable[[Choice], Facts]


def run_study(
    study: StudySpec,
    store: Store,
    *,
    methods: Collection[str] | None = None,
    root: Path | None = None,
    runner: Runner | None = None,
) -> dict[str, SearchResult]:
    """Train what ``store`` lacks of the study, or of the ``methods`` named, and return their runs by method.

    Without a ``runner`` nothing is trained or downloaded, and only what the store holds is returned. Everything asked
    for is checked before anything is trained. Run batches are kept one by one, so that the same call after an
    interruption goes on with the next. Records do not depend on the order of methods.
    """
    records = store.records()
    if runner is None:
        return recorded(study, records, root, methods)
    noted.note(store.path, study.file)
    askers = _askers(study, methods, root)
    while asked := [asker for asker in askers if asker.ask(records)]:
        run_batches = _run_batches(asked, records)
        if run_batches:
            runner.train(run_batches, store)
            records = store.records()
        for asker in asked:
            asker.tell(records)
    return {asker.method.name: asker.search(records) for asker in askers}


def recorded(
    study: StudySpec,
    records: Records,
    root: Path | None = None,
    methods: Collection[str] | None = None,
    metadata: Lookup | None = None,
) -> dict[str, SearchResult]:
    """Return the runs of a study by method as far as they are among the ``records``, without training or downloads.

    ``metadata`` describes the data sets; without it the raw data below ``root`` are read.
    """
    with download.forbidden("looking at records"):
        askers = _askers(study, methods, root, metadata)
        while asked := [asker for asker in askers if asker.ask(records)]:
            # What is asked for next depends on these; what is there of them is all there is to show.
            if any(asker.missing(records) for asker in asked if not asker.asks_once):
                break
            for asker in asked:
                asker.tell(records)
    return {asker.method.name: asker.search(records) for asker in askers}


def run_batches(study: StudySpec, records: Records, root: Path | None = None) -> tuple[list[PlannedBatch], int]:
    """What a study has still to train, and how many runs that and what is finished of it are.

    A search that asks by what it has found is told that nothing was: its later settings stand for others.
    """
    askers, planned = _askers(study, None, root), []
    while asked := [asker for asker in askers if asker.ask(records)]:
        planned += _run_batches(asked, records)
        for asker in asked:
            asker.tell(records)
    return planned, study.runs(study.methods)


def _askers(
    study: StudySpec, methods: Collection[str] | None, root: Path | None, metadata: Lookup | None = None
) -> list[_MethodSearch]:
    look = _DataMetadata(study, metadata or (lambda data: facts(data.name, root, data.options)))
    wanted = [method for method in study.methods.values() if methods is None or method.name in methods]
    return [_MethodSearch(study, method, look) for method in wanted]


class _DataMetadata:
    """The facts of a study's data sets, each asked for once."""

    def __init__(self, study: StudySpec, metadata: Lookup) -> None:
        self.study, self.metadata = study, metadata
        self._known: dict[str, Facts] = {}

    def __call__(self, data: Choice) -> Facts:
        key = content_hash({"name": data.name, "options": data.options})
        if key not in self._known:
            self._known[key] = self.metadata(data)
            _check_metrics(self.study, data.name, self._known[key])
        return self._known[key]


class _MethodSearch:
    """A method's search, with the runs behind its settings."""

    def __init__(self, study: StudySpec, method: Method, look: _DataMetadata) -> None:
        self.study, self.method, self.look = study, method, look
        self._search = search.Search(method)
        self._batch: list[Setting] = []
        self.runs: list[list[RunSpec]] = []  # by setting and seed
        self.sample = 1
        first = method.at((method.grid or ({},))[0] if method.search.kind == "grid" else method.fixed)
        try:
            _ = first.numbers
        except SpecError as error:
            raise SpecError(f"{study.file}: methods.{method.name}: {error}") from None
        self.rungs = (
            halving.rungs(method.search.first or 1, method.budget.rounds, method.search.reduction)
            if method.search.kind == "halving" and method.axes
            else ()
        )
        if self.rungs and (several := [name for name in method.axes if "." in name]):
            what = f"{several[0]} makes run batches of several kinds, and halving drops settings of one"
            raise SpecError(f"{study.file}: methods.{method.name}: {what}; search it with kind = 'random'")

    @property
    def asks_once(self) -> bool:
        return self.method.search.kind != "tpe"

    def ask(self, records: Records) -> bool:
        """Whether there are settings to try; their runs are then the last of :attr:`runs`."""
        self._batch = self._search.ask()
        self.runs += [self._runs(self.method.at(setting)) for setting in self._batch]
        return bool(self._batch)

    def _runs(self, method: Method) -> list[RunSpec]:
        """The runs of a method with one setting, by seed."""
        algorithm = _filled("algorithms", method.algorithm.name, method.algorithm.options)
        name = settings.fitting(method.algorithm.name, method.model.name)
        model, numbers = _filled("models", name, method.model.options), method.numbers

        def run(seed: int) -> RunSpec:
            data = method.data_of(seed)
            known = self.look(data)
            self.sample = max(self.sample, known.sample)
            shown = {"name": data.name, "options": dict(known.options), "fingerprint": known.fingerprint}
            return RunSpec({**shown, "by_seed": method.by_seed}, algorithm, model, numbers, method.budget, seed)

        return [run(seed) for seed in self.study.seeds]

    @property
    def _asked(self) -> list[list[RunSpec]]:
        """The runs of the settings asked for last, by setting and seed."""
        return self.runs[len(self.runs) - len(self._batch) :]

    def asked(self) -> list[RunSpec]:
        return [run for seeds in self._asked for run in seeds]

    def missing(self, records: Records) -> bool:
        return bool(self.race(records)) if self.rungs else any(run.hash not in records for run in self.asked())

    def race(self, records: Records) -> list[PlannedBatch]:
        """All settings as one run batch that drops some on the way, unless how it ends is on record."""
        if self._standing(records) is not None:
            return []
        runs = tuple(run for seeds in self.runs for run in seeds)
        numbers = tuple(dict(seeds[0].hyperparameters) for seeds in self.runs)
        return [PlannedBatch(numbers, self.study.seeds, runs, self.rungs, self.method.search.reduction)]

    def _standing(self, records: Records) -> list[int] | None:
        """After how many rounds each setting's runs ended, by what is on record; None if that does not say."""
        ended = [0] * len(self.runs)
        alive = list(range(len(self.runs)))
        for rung in self.rungs:
            losses = []
            for number in alive:
                found = [self._as_ended(run, rung, records) for run in self.runs[number]]
                if None in found:
                    return None
                losses.append(fmean(best_validation(record, rung) for record in found))
                ended[number] = rung
            if rung != self.rungs[-1]:
                alive = [alive[place] for place in halving.survivors(losses, self.method.search.reduction)]
        return ended

    def _as_ended(self, run: RunSpec, rounds: int, records: Records) -> Mapping[str, Any] | None:
        """The record of the run that ended at a rung of at least so many ``rounds``."""
        for rung in self.rungs:
            if rung >= rounds and (record := records.get(with_rounds(run, rung).hash)) is not None:
                return record
        return None

    def tell(self, records: Records) -> None:
        self._search.tell([fmean(best_validation(records.get(run.hash)) for run in seeds) for seeds in self._asked])

    def search(self, records: Records) -> SearchResult:
        """Everything tried, each setting once."""
        ended = (self._standing(records) or [self.rungs[-1]] * len(self.runs)) if self.rungs else []
        found: dict[str, tuple[Setting, tuple[Mapping[str, Any] | None, ...], bool]] = {}
        for number, (setting, seeds) in enumerate(zip(self._search.drawn, self.runs, strict=True)):
            runs = [with_rounds(run, ended[number]) for run in seeds] if ended else seeds
            shown = {**setting, **seeds[0].hyperparameters}
            dropped = bool(ended) and ended[number] < self.rungs[-1]
            found.setdefault(content_hash(shown), (shown, tuple(records.get(run.hash) for run in runs), dropped))
        kept = list(found.values())
        return SearchResult(
            method=self.method.name,
            settings=tuple(setting for setting, _, _ in kept),
            seeds=self.study.seeds,
            records=tuple(of_setting for _, of_setting, _ in kept),
            dropped=frozenset(number for number, (_, _, dropped) in enumerate(kept) if dropped),
        )


def _run_batches(asked: Sequence[_MethodSearch], records: Records) -> list[PlannedBatch]:
    packed = [
        run_batch
        for sample in sorted({asker.sample for asker in asked})
        for run_batch in plan(
            [run for asker in asked if asker.sample == sample and not asker.rungs for run in asker.asked()],
            records,
            sample=sample,
        )
    ]
    return packed + [run_batch for asker in asked if asker.rungs for run_batch in asker.race(records)]


def _filled(kind: registry.Kind, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A name with all its options, defaults included."""
    return {"name": name, "options": {**registry.defaults(kind, name), **options}}


def _check_metrics(study: StudySpec, data: str, known: Facts) -> None:
    for section in (*study.tables.values(), *study.figures.values()):
        for metric in sorted(section.metrics - set(known.metrics)):
            raise SpecError(f"{study.file}: {section.id}: {data} is not scored by {metric!r}: "
                            f"{nearest(metric, known.metrics)}")  # fmt: skip
