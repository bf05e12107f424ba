"""The search of one method together with the runs of its settings, and the settings that successive halving keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from bench import registry, settings
from bench.data.metadata import Metadata
from bench.spec import Choice, Method, Setting, StudySpec
from bench.sweep.plan import PlannedBatch, with_rounds
from bench.sweep.search.draws import Search
from bench.sweep.search.selection import SearchResult, best_validation
from bench.train import halving
from bench.types import RunSpec, SpecError, content_hash

Record = Mapping[str, Any]
Records = Mapping[str, Record]  # by the hash of the run


class MethodSearch:
    """A method's search, which asks for settings, and the runs of every setting asked for so far."""

    def __init__(self, study: StudySpec, method: Method, metadata: Callable[[Choice], Metadata]) -> None:
        self.study, self.method, self.metadata = study, method, metadata
        self._search = Search(method)
        self._batch: list[Setting] = []
        self.runs: list[list[RunSpec]] = []  # by setting and seed
        self.sample = 1  # numbers in one input
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
            what = f"{several[0]} needs several run batches, but halving compares the settings of one run batch"
            raise SpecError(f"{study.file}: methods.{method.name}: {what}; use search.kind = 'random'")

    @property
    def asks_once(self) -> bool:
        """Whether the first call of :meth:`ask` asks for all settings."""
        return self.method.search.kind != "tpe"

    def ask(self) -> bool:
        """Ask for the next settings and append their runs to :attr:`runs`; return False at the end of the search."""
        self._batch = self._search.ask()
        self.runs += [self._runs(self.method.at(setting)) for setting in self._batch]
        return bool(self._batch)

    def _runs(self, method: Method) -> list[RunSpec]:
        """Return the runs of a method with one setting, by seed."""
        algorithm = _with_defaults("algorithms", method.algorithm.name, method.algorithm.options)
        name = settings.fitting(method.algorithm.name, method.model.name)
        model, numbers = _with_defaults("models", name, method.model.options), method.numbers

        def run(seed: int) -> RunSpec:
            data = method.data_of(seed)
            known = self.metadata(data)
            self.sample = max(self.sample, known.sample)
            shown = {"name": data.name, "options": dict(known.options), "fingerprint": known.fingerprint}
            return RunSpec({**shown, "by_seed": method.by_seed}, algorithm, model, numbers, method.budget, seed)

        return [run(seed) for seed in self.study.seeds]

    @property
    def _asked(self) -> list[list[RunSpec]]:
        """The runs of the last settings, by setting and seed."""
        return self.runs[len(self.runs) - len(self._batch) :]

    def asked(self) -> list[RunSpec]:
        """Return the runs of the last settings."""
        return [run for seeds in self._asked for run in seeds]

    def missing(self, records: Records) -> bool:
        """Tell whether some runs of the last settings are not recorded."""
        if self.rungs:
            return bool(self.halving_batch(records))
        return any(run.hash not in records for run in self.asked())

    def halving_batch(self, records: Records) -> list[PlannedBatch]:
        """Return all settings as one run batch with rungs; return nothing if its end is recorded."""
        if self._rounds_trained(records) is not None:
            return []
        runs = tuple(run for seeds in self.runs for run in seeds)
        numbers = tuple(dict(seeds[0].hyperparameters) for seeds in self.runs)
        return [PlannedBatch(numbers, self.study.seeds, runs, self.rungs, self.method.search.reduction)]

    def _rounds_trained(self, records: Records) -> list[int] | None:
        """Return the rounds after which each setting ended, from the records; None if some of these are missing."""
        rounds = [0] * len(self.runs)
        alive = list(range(len(self.runs)))
        for rung in self.rungs:
            losses = []
            for number in alive:
                found = [self._record_at(run, rung, records) for run in self.runs[number]]
                if None in found:
                    return None
                losses.append(fmean(best_validation(record, rung) for record in found))
                rounds[number] = rung
            if rung != self.rungs[-1]:
                alive = [alive[place] for place in halving.survivors(losses, self.method.search.reduction)]
        return rounds

    def _record_at(self, run: RunSpec, rounds: int, records: Records) -> Record | None:
        """Return the record of the run that ended at the first rung of at least ``rounds`` rounds that has one."""
        for rung in self.rungs:
            if rung >= rounds and (record := records.get(with_rounds(run, rung).hash)) is not None:
                return record
        return None

    def tell(self, records: Records) -> None:
        """Report the losses of the last settings to the search; missing runs count as diverged."""
        self._search.tell([fmean(best_validation(records.get(run.hash)) for run in seeds) for seeds in self._asked])

    def result(self, records: Records) -> SearchResult:
        """Return the records of all settings asked for, each setting once."""
        rounds = (self._rounds_trained(records) or [self.rungs[-1]] * len(self.runs)) if self.rungs else []
        found: dict[str, tuple[Setting, tuple[Record | None, ...], bool]] = {}
        for number, (setting, seeds) in enumerate(zip(self._search.drawn, self.runs, strict=True)):
            runs = [with_rounds(run, rounds[number]) for run in seeds] if rounds else seeds
            shown = {**setting, **seeds[0].hyperparameters}
            dropped = bool(rounds) and rounds[number] < self.rungs[-1]
            found.setdefault(content_hash(shown), (shown, tuple(records.get(run.hash) for run in runs), dropped))
        kept = list(found.values())
        return SearchResult(
            method=self.method.name,
            settings=tuple(setting for setting, _, _ in kept),
            seeds=self.study.seeds,
            records=tuple(of_setting for _, of_setting, _ in kept),
            dropped=frozenset(number for number, (_, _, dropped) in enumerate(kept) if dropped),
        )


def _with_defaults(kind: registry.Kind, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a name with all its options, defaults included."""
    return {"name": name, "options": {**registry.defaults(kind, name), **options}}
