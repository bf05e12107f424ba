"""What a study is once it is read: methods with everything looked up, and the settings each of them searches."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import registry, settings
from bench.registry import Kind, catalogue
from bench.spec import printed
from bench.spec.exhibits import (
    BarsSection,
    FigureSection,
    OfMethod,
    OfTable,
    PartitionSection,
    RowSection,
    TableSection,
)
from bench.spec.keys import Choice
from bench.spec.profiles import PAPER
from bench.spec.sections import BudgetSection, MethodSection, RangeSection, Rule, SearchSection, StudySection
from bench.types import Budget, SpecError, nearest

# A larger study is a slip of the pen: at a hundred runs a second it would take three hours.
MAX_STUDY_RUNS = 1_000_000
# An option of a data set with this value is the run's seed: every run has a split of its own.
BY_SEED = {"from": "seed"}
OF_EVERY_DATA_SET = ("label", "subsample")
KINDS: dict[str, Kind] = {"algorithm": "algorithms", "model": "models", "data": "datasets"}
PARTS = (*KINDS, "budget")  # what a searched name may begin with, before its point
Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """One method of a study: what is trained, for how long, and what is searched.

    ``axes`` are by hyper-parameter, or by part and option ("model.hidden"), the values to combine or a range to draw
    from; ``fixed`` likewise what all settings have in common.
    """

    name: str
    algorithm: Choice
    model: Choice
    data: Choice
    budget: Budget
    fixed: Setting = field(default_factory=dict)
    axes: Mapping[str, tuple[Any, ...] | RangeSection] = field(default_factory=dict)
    search: SearchSection = field(default_factory=SearchSection)

    @property
    def grid(self) -> tuple[Setting, ...]:
        """All combinations of the values, the first name changing slowest."""
        values = [axis for axis in self.axes.values() if isinstance(axis, tuple)]
        return tuple({**self.fixed, **dict(zip(self.axes, each, strict=True))} for each in itertools.product(*values))

    @property
    def tried(self) -> int:
        """How many settings the search tries."""
        if self.search.trials is not None and self.axes:
            return self.search.trials
        return math.prod(len(axis) for axis in self.axes.values() if isinstance(axis, tuple))

    def at(self, setting: Setting) -> Method:
        """The method with one setting: options and budget changed, its numbers alone in ``fixed``, nothing searched."""
        changed: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        numbers: dict[str, Any] = {}
        for name, value in setting.items():
            part, point, option = name.partition(".")
            if point:
                changed[part][option] = value
            else:
                numbers[name] = value
        return replace(
            self,
            algorithm=replace(self.algorithm, options={**self.algorithm.options, **changed["algorithm"]}),
            model=replace(self.model, options={**self.model.options, **changed["model"]}),
            data=replace(self.data, options={**self.data.options, **changed["data"]}),
            budget=_lengthened(self.budget, changed["budget"]),
            fixed=numbers,
            axes={},
        )

    @property
    def numbers(self) -> dict[str, float]:
        """The hyper-parameters of a method with one setting, defaults filled in."""
        return settings.resolve(self.algorithm.name, self.budget.optimizer, self.fixed)

    def data_of(self, seed: int) -> Choice:
        """The data that the run with this seed sees."""
        options = {name: seed if value == BY_SEED else value for name, value in self.data.options.items()}
        return replace(self.data, options=options)

    @property
    def by_seed(self) -> list[str]:
        """The data set's options that are the run's seed."""
        return sorted(name for name, value in self.data.options.items() if value == BY_SEED)


@dataclass(frozen=True)
class StudySpec:
    """A study that can be run: ``methods`` by key in the order of the file, ``tables`` and ``figures`` by id.

    ``paper`` is the folder of experiments/ whose printed numbers stand beside ours, ``rule`` the selection rule,
    ``data`` the names or labels of its data sets. ``profile`` is "paper" for the file as it stands, or names what was
    laid over it (see bench.spec.profiles).
    """

    file: Path
    title: str
    paper: str | None
    seeds: tuple[int, ...]
    data: tuple[str, ...]
    rule: Rule
    methods: Mapping[str, Method]
    tables: Mapping[str, TableSection]
    figures: Mapping[str, FigureSection]
    profile: str = PAPER

    def runs(self, methods: Iterable[str]) -> int:
        """How many runs these methods (keys) try."""
        return len(self.seeds) * sum(self.methods[method].tried for method in methods)

    def methods_behind(self, tables: Iterable[str], figures: Iterable[str]) -> set[str]:
        """The methods whose runs these tables and figures (ids) are made from."""
        shown = [self.figures[figure] for figure in figures]
        behind = [self.tables[table] for table in (*tables, *(table for figure in shown for table in figure.drawn))]
        return set().union(*(section.methods for section in (*behind, *shown)))

    def stem(self, name: str) -> str:
        """What the files of a table or figure (id) are called, below the folder of results and without their ending."""
        return name if self.profile == PAPER else f"{name}-{self.profile}"

    def with_a_table(self) -> StudySpec:
        """The study itself, or with a table of all methods for each of its data sets if it names none."""
        if self.tables:
            return self
        stem = re.sub(r"[^\w-]+", "-", self.file.stem)
        several = len(self.data) > 1
        tables = {}
        for data in self.data:
            keys = [key for key in self.methods if not several or key.endswith(f"@{data}")]
            rows = [RowSection(method=key.partition("@")[0], of=key) for key in keys]
            table = TableSection(id=_labelled(stem, data) if several else stem, title=self._title(data), rows=rows)
            tables[table.id] = table
        return replace(self, tables=tables)

    def _title(self, data: str) -> str:
        return f"{self.title} ({data})" if len(self.data) > 1 else self.title

    def dataset(self, table: TableSection) -> Choice:
        """The data set behind a table, as its first row has it."""
        return self.methods[table.rows[0].of].data

    def shown_data(self, figure: PartitionSection) -> Choice:
        """The data set behind a figure of a partition; of one drawn anew for each seed, that of the first."""
        methods = (method for name, method in self.methods.items() if figure.data in (None, name.rpartition("@")[2]))
        return next(methods).data_of(self.seeds[0])

    def printed(self, table: TableSection) -> list[printed.Number]:
        """The printed numbers beside ``table``, in its unit; none is an empty list."""
        by_client = table.columns == "clients"
        if table.printed is not None:
            numbers = printed.at(self.paper, table.printed, by_client=by_client)
        else:
            numbers = [each for row in table.rows for each in printed.of_row(self.paper, row, by_client=by_client)]
        return [number.scaled(table.printed_unit) for number in numbers]


def build(file: Path, section: StudySection, profile: str = PAPER) -> StudySpec:
    """The study that ``section`` describes; raises :class:`SpecError` naming the key and what was expected."""
    _refuse_repetition("seeds", section.seeds)
    several = section.data if isinstance(section.data, list) else [section.data]
    labelled = {str(each.options.get("label", each.name)): each for each in several}
    if len(labelled) < len(several):
        raise SpecError('data: two data sets have the same name; give each a label = "..." of its own')
    methods: dict[str, Method] = {}
    for label, data in labelled.items():
        _check("datasets", data, "data")
        for key, method in section.methods.items():
            own = f"{key}@{label}" if len(several) > 1 else key
            methods[own] = _method(own, key, method, section, data)
    runs = len(section.seeds) * sum(method.tried for method in methods.values())
    if runs > MAX_STUDY_RUNS:
        raise SpecError(f"{runs:,} runs are more than {MAX_STUDY_RUNS:,}; give fewer values or seeds")
    one = len(several) == 1
    tables = [table for label in labelled for table in _tables(section, label, one)]
    figures = [figure for each in section.figures for figure in _figures(section, each, () if one else labelled)]
    _refuse_repetition("tables", [table.id for table in tables])
    _refuse_repetition("figures", [figure.id for figure in figures])
    study = StudySpec(
        file=file,
        title=section.title,
        paper=section.paper,
        seeds=tuple(section.seeds),
        data=tuple(labelled),
        rule=section.select.rule,
        methods=methods,
        tables={table.id: table for table in tables},
        figures={figure.id: figure for figure in figures},
        profile=profile,
    )
    for i, table in enumerate(tables):
        _refuse_repetition(f"tables[{i}].rows", [row.method for row in table.rows])
        for j, row in enumerate(table.rows):
            _known(f"tables[{i}].rows[{j}].of", row.of, methods)
        for method_key in table.against:
            _known(f"tables[{i}].against", method_key, methods)
        study.printed(table)
    for i, figure in enumerate(figures):
        for table_id in figure.drawn:
            _known(f"figures[{i}]: table", table_id, study.tables)
        for method_key in sorted(figure.methods):
            _known(f"figures[{i}]: of", method_key, methods)
        if isinstance(figure, PartitionSection) and figure.data is not None:
            _known(f"figures[{i}].data", figure.data, labelled)
    return study


def _tables(section: StudySection, label: str, one: bool) -> list[TableSection]:
    """The study's tables as they are for its ``one`` data set, or for one of several."""
    made = []
    for table in section.tables:
        update: dict[str, Any] = {"printed": table.printed and table.printed.replace("{data}", label)}
        if not one:
            update |= {
                "id": _labelled(table.id, label),
                "title": f"{table.title or section.title} ({label})",
                "rows": [row.model_copy(update={"of": f"{row.of}@{label}"}) for row in table.rows],
                "against": [f"{method}@{label}" for method in table.against],
            }
        made.append(table.model_copy(update=update))
    return made


def _figures(section: StudySection, figure: FigureSection, labels: Iterable[str]) -> list[FigureSection]:
    """A figure as it is; of several data sets one for each, unless it says itself of which ("method@label")."""
    labels = list(labels)
    own = {table.id for table in section.tables}
    if not labels or not (set(figure.drawn) <= own and figure.methods <= set(section.methods)):
        return [figure]
    made = []
    for label in labels:
        update: dict[str, Any] = {"id": _labelled(figure.id, label), "title": f"{figure.title} ({label})"}
        if isinstance(figure, BarsSection):
            update["tables"] = [_labelled(table, label) for table in figure.tables]
        elif isinstance(figure, OfTable):
            update["table"] = _labelled(figure.table, label)
        elif isinstance(figure, OfMethod):
            update["of"] = f"{figure.of}@{label}"
        elif isinstance(figure, PartitionSection):
            update["data"] = label
        else:
            update["rows"] = [row.model_copy(update={"of": f"{row.of}@{label}"}) for row in figure.rows]
        made.append(figure.model_copy(update=update))
    return made


def _labelled(name: str, label: str) -> str:
    """The id of what is made for one of several data sets; ids are names of files."""
    return f"{name}-{re.sub(r'[^A-Za-z0-9_-]+', '-', label)}"


def _refuse_repetition(where: str, values: Iterable[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        key = repr(value) if isinstance(value, list) else value
        if key in seen:
            raise SpecError(f"{where}: {value!r} stands more than once")
        seen.add(key)


def _known(where: str, name: str, known: Iterable[str]) -> None:
    if name not in (known := list(known)):
        raise SpecError(f"{where} = {name!r}: {nearest(name, known)}")


# Methods --------------------------------------------------------------------------------------------------------


def _method(name: str, key: str, section: MethodSection, study: StudySection, data: Choice) -> Method:
    where = f"methods.{key}"
    algorithm = section.algorithm or Choice(key, {})
    options = {option: value for option, value in data.options.items() if option != "label"} | section.data
    data = Choice(data.name, options)
    _check("datasets", data, f"{where}.data" if section.data else "data")
    _check("models", section.model, f"{where}.model")
    _check("algorithms", algorithm, f"{where}.algorithm" if section.algorithm else where)
    try:
        budget = _budget(section.budget, study.budget)
    except SpecError as error:
        raise SpecError(f"{where}.budget: {error}" if section.budget.model_fields_set else f"budget: {error}") from None
    axes: dict[str, tuple[Any, ...] | RangeSection] = {k: tuple(values) for k, values in section.grid.items()}
    axes |= section.range
    method = Method(name, algorithm, section.model, data, budget, section.fixed, axes, section.search or study.search)
    _check_axes(where, section, method)
    if method.tried > 1 and not budget.validation and not _held_out(method):
        raise SpecError(f"{where}: validation = 0 leaves nothing to choose between {method.tried} settings by")
    return method


def _held_out(method: Method) -> bool:
    """Whether the share of validation samples is itself among what is set."""
    return "budget.validation" in {**method.axes, **method.fixed}


def _budget(own: BudgetSection, study: BudgetSection) -> Budget:
    """The study's budget with the method's own keys over it."""
    keys = study.model_dump(exclude_unset=True)
    if own.model_fields_set & {"local_steps", "local_epochs"}:
        keys = {key: value for key, value in keys.items() if key not in ("local_steps", "local_epochs")}
    keys |= own.model_dump(exclude_unset=True)
    if "rounds" not in keys:
        raise SpecError("rounds is missing")
    return Budget(**keys)


def _lengthened(budget: Budget, changed: Mapping[str, Any]) -> Budget:
    """The budget with some fields changed; local epochs take the place of local steps, and the other way round."""
    cleared = {"local_steps": None, "local_epochs": None} if {"local_steps", "local_epochs"} & set(changed) else {}
    return replace(budget, **{**cleared, **changed}) if changed else budget


def _check_axes(where: str, section: MethodSection, method: Method) -> None:
    """Refuse what is searched twice, has no meaning for the method, or cannot be searched in this way."""
    numbers = settings.known(method.algorithm.name, method.budget.optimizer)
    parts = {
        "algorithm": registry.options("algorithms", method.algorithm.name),
        "model": registry.options("models", method.model.name),
        "data": registry.options("datasets", method.data.name) if ":" not in method.data.name else None,
        "budget": [*BudgetSection.model_fields],
    }
    for part in ("grid", "range", "fixed"):
        for name in getattr(section, part):
            _check_axis(f"{where}.{part}", name, method, numbers, parts)
    for name, values in section.grid.items():
        for other in ("range", "fixed"):
            if name in getattr(section, other):
                raise SpecError(f"{where}: {name} stands in grid and in {other}; keep one")
        _refuse_repetition(f"{where}.grid.{name}", values)
    for name in section.range:
        if name in section.fixed:
            raise SpecError(f"{where}: {name} stands in range and in fixed; keep one")
        if method.search.kind == "grid":
            raise SpecError(f'{where}.range.{name}: a grid has values, give grid.{name} or search.kind = "random"')
    combinations = math.prod(map(len, section.grid.values()))
    if method.search.kind == "grid" and combinations > MAX_STUDY_RUNS:
        raise SpecError(f"{where}.grid: {combinations:,} combinations are more than {MAX_STUDY_RUNS:,}; give fewer")
    if method.search.first is not None and method.search.first >= method.budget.rounds and method.axes:
        first = f"first = {method.search.first}"
        raise SpecError(f"{where}.search: {first}: expected fewer than the budget's {method.budget.rounds} rounds")
    for name, values in section.grid.items():
        for value in values:
            _check_value(f"{where}.grid.{name}", name, value, method)
    for name, value in section.fixed.items():
        _check_value(f"{where}.fixed.{name}", name, value, method)
    for name, ends in section.range.items():
        for end in (ends.low, ends.high):
            _check_value(f"{where}.range.{name}", name, int(end) if ends.whole else end, method)


def _check_axis(
    where: str, name: str, method: Method, numbers: Iterable[str], parts: Mapping[str, Iterable[str] | None]
) -> None:
    part, point, option = name.partition(".")
    if not point:
        if name not in (numbers := list(numbers)):
            what = f"{method.algorithm.name} with {method.budget.optimizer} has no hyper-parameter {name!r}"
            raise SpecError(f"{where}: {what}: {nearest(name, numbers)}")
        return
    if part not in PARTS:
        raise SpecError(f"{where}: {name!r}: {nearest(part, PARTS)}")
    known = parts[part]
    if known is not None and option not in (known := list(known)):
        hint = nearest(option, known) if known else "it has none"
        raise SpecError(f"{where}: {part} has no option {option!r}: {hint}")


def _check_value(where: str, name: str, value: Any, method: Method) -> None:
    """Refuse a value that no run can have."""
    part, point, option = name.partition(".")
    if not point:
        settings.known(method.algorithm.name, method.budget.optimizer)[name].check(where, value)
    elif part == "budget":
        try:
            _lengthened(method.budget, {option: value})
        except SpecError as error:
            raise SpecError(f"{where}: {error}") from None
    elif ":" not in (choice := getattr(method, part)).name:
        registry.declaration(KINDS[part], choice.name).options[option].allowed.check(where, value)


# What the source files say --------------------------------------------------------------------------------------


def _check(kind: Kind, choice: Choice, where: str) -> None:
    """Refuse a name nothing is registered under, and an option its definition does not take."""
    if kind == "datasets" and ":" in choice.name:
        return  # "flamby:<task>" is known to that package only
    entries = catalogue(kind)
    if choice.name not in entries:
        raise SpecError(f"{where}: unknown {_WORD[kind]} {choice.name!r}: {nearest(choice.name, entries)}")
    for option, value in choice.options.items():
        if kind == "datasets" and option in OF_EVERY_DATA_SET:
            continue
        if isinstance(value, dict) and value != BY_SEED:
            raise SpecError(f'{where}.{option} = {value}: expected a value, or {{ from = "seed" }}')
        if value == BY_SEED and kind != "datasets":
            raise SpecError(f"{where}.{option}: only options of data sets can be the run's seed")
        registry.check_options(kind, choice.name, {option: 0 if value == BY_SEED else value}, where)


_WORD: dict[Kind, str] = {"algorithms": "algorithm", "datasets": "data set", "models": "model"}
