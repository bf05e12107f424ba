"""Running a study: ask for settings, train the runs that the store lacks, and return all runs by method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from bench.data.files.locate import downloads_forbidden
from bench.data.metadata import Metadata, dataset_metadata
from bench.files import check_writable
from bench.limits import MAX_CHECKED
from bench.spec import Choice, StudySpec
from bench.sweep import noted
from bench.sweep.check import check_run
from bench.sweep.plan import PlannedBatch, common_hash, plan
from bench.sweep.runner import Runner
from bench.sweep.search.draws import STARTUP_TRIALS
from bench.sweep.search.method import MethodSearch, Records
from bench.sweep.search.selection import SearchResult
from bench.sweep.store import DamageError, Store
from bench.sweep.training import WorkerSettings
from bench.types import RunSpec, SpecError, content_hash, nearest

Lookup = Callable[[Choice], Metadata]


def run_study(
    study: StudySpec,
    store: Store,
    *,
    methods: Collection[str] | None = None,
    root: Path | None = None,
    runner: Runner | None = None,
) -> dict[str, SearchResult]:
    """Train the runs of the study, or of the given ``methods``, that ``store`` lacks; return all runs by method.

    Without a ``runner``, train and download nothing and return what the store has. The whole study is checked before
    any training. Each run batch is recorded when it ends, so the same call after an interruption continues with the
    next one. Records do not depend on the order of methods.

    Raise :class:`bench.sweep.store.DamageError` if runs are missing and files of records are damaged, which may hold
    them.
    """
    records, damage = store.read_all()
    if runner is None:
        if damage:
            raise DamageError(damage)
        return recorded(study, records, root, methods)
    check_writable(store.path)
    searches = _searches(study, methods, root)
    for note in notes(study, methods):
        runner.note(note)
    checked = False
    while asking := [search for search in searches if search.ask()]:
        run_batches = _run_batches(asking, records)
        if run_batches and damage:
            raise DamageError(damage)
        if run_batches and not checked:
            _check_runs(study, asking, records, root)
            checked = True
            noted.note(store.path, study.file)
        if run_batches:
            runner.train(run_batches, store)
            records = store.records()
        for search in asking:
            search.tell(records)
    if not checked:
        noted.note(store.path, study.file)
    return {search.method.name: search.result(records) for search in searches}


def recorded(
    study: StudySpec,
    records: Records,
    root: Path | None = None,
    methods: Collection[str] | None = None,
    metadata: Lookup | None = None,
) -> dict[str, SearchResult]:
    """Return the runs of a study by method, as far as ``records`` has them; train and download nothing.

    ``metadata`` describes the data sets; without it the raw data below ``root`` are read.
    """
    with downloads_forbidden("looking at records"):
        searches = _searches(study, methods, root, metadata)
        while asking := [search for search in searches if search.ask()]:
            # The next settings depend on records that are missing: there is nothing more to return.
            if any(search.missing(records) for search in asking if not search.asks_once):
                break
            for search in asking:
                search.tell(records)
    return {search.method.name: search.result(records) for search in searches}


def run_batches(study: StudySpec, records: Records, root: Path | None = None) -> tuple[list[PlannedBatch], int]:
    """Return the run batches that a study still has to train, and the number of all its runs.

    A TPE search is told that missing runs diverged: its later settings are placeholders for the real ones.
    """
    searches, planned = _searches(study, None, root), []
    while asking := [search for search in searches if search.ask()]:
        planned += _run_batches(asking, records)
        for search in asking:
            search.tell(records)
    return planned, study.runs(study.methods)


def notes(study: StudySpec, methods: Collection[str] | None = None) -> Iterator[str]:
    """Yield a line for each TPE search with so few trials that all of them are drawn at random."""
    for name, method in study.methods.items():
        trials = method.search.trials or 0
        if (methods is None or name in methods) and method.search.kind == "tpe" and trials <= STARTUP_TRIALS:
            what = f"all {trials} trials are drawn at random; TPE uses losses from trial {STARTUP_TRIALS + 1} on"
            yield f"{study.file}: methods.{name}: {what}, so set search.trials higher or search.kind = 'random'"


def _searches(
    study: StudySpec, methods: Collection[str] | None, root: Path | None, metadata: Lookup | None = None
) -> list[MethodSearch]:
    known = _StudyMetadata(study, metadata or (lambda data: dataset_metadata(data.name, root, data.options)))
    wanted = [method for method in study.methods.values() if methods is None or method.name in methods]
    return [MethodSearch(study, method, known) for method in wanted]


class _StudyMetadata:
    """The metadata of a study's data sets, each read once and checked against the study's metrics."""

    def __init__(self, study: StudySpec, metadata: Lookup) -> None:
        self.study, self.metadata = study, metadata
        self._known: dict[str, Metadata] = {}

    def __call__(self, data: Choice) -> Metadata:
        key = content_hash({"name": data.name, "options": data.options})
        if key not in self._known:
            self._known[key] = self.metadata(data)
            _check_metrics(self.study, data.name, self._known[key])
        return self._known[key]


def _run_batches(asking: Sequence[MethodSearch], records: Records) -> list[PlannedBatch]:
    planned = [
        run_batch
        for sample in sorted({search.sample for search in asking})
        for run_batch in plan(
            [run for search in asking if search.sample == sample and not search.rungs for run in search.asked()],
            records,
            sample=sample,
        )
    ]
    return planned + [run_batch for search in asking if search.rungs for run_batch in search.halving_batch(records)]


def check_runs(study: StudySpec, records: Records, root: Path | None = None) -> None:
    """Check a first missing run of each method against its data; raise :class:`SpecError` naming the method."""
    asking = [search for search in _searches(study, None, root) if search.ask()]
    _check_runs(study, asking, records, root)


def _check_runs(study: StudySpec, asking: Sequence[MethodSearch], records: Records, root: Path | None) -> None:
    """Check the first missing run of each method against its data; raise :class:`SpecError` naming the method.

    Of methods with equal data, algorithm, model and budget the first one is checked.
    """
    found: dict[str, tuple[str, RunSpec]] = {}
    for search in (search for search in asking if search.missing(records)):
        if missing := next((run for run in search.asked() if run.hash not in records), None):
            found.setdefault(common_hash(missing), (search.method.name, missing))
    for method, run in _most_different(list(found.values()), MAX_CHECKED):
        try:
            check_run(run, WorkerSettings(root, None).federation(run))
        except SpecError as error:
            raise SpecError(f"{study.file}: methods.{method}: {error}") from None


def _most_different(runs: list[tuple[str, RunSpec]], most: int) -> list[tuple[str, RunSpec]]:
    """Return at most ``most`` of the runs, those first that are the first with their data set, algorithm and model."""
    if len(runs) <= most:
        return runs
    seen: Counter[tuple[str, ...]] = Counter()
    ranks = []
    for _, run in runs:
        named = (run.data["name"], run.algorithm["name"], run.model["name"], *sorted(run.model["options"]))
        ranks.append(seen[named])
        seen[named] += 1
    return [runs[place] for place in sorted(range(len(runs)), key=ranks.__getitem__)[:most]]


def _check_metrics(study: StudySpec, data: str, known: Metadata) -> None:
    for section in (*study.tables.values(), *study.figures.values()):
        for metric in sorted(section.metrics - set(known.metrics)):
            raise SpecError(f"{study.file}: {section.id}: {data} has no metric {metric!r}: "
                            f"{nearest(metric, known.metrics)}")  # fmt: skip
