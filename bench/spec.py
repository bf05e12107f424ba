"""A study as a TOML file: checked to the last key before anything is downloaded or trained.

A study names data, budget, seeds, methods with their grids, and the tables and figures made from them::

    title = "FedAvg and FedProx on the digits"
    seeds = [1, 2, 3]
    [data]
    name = "digits"                       # further keys are options of the data set
    [budget]                              # the fields of bench.types.Budget
    rounds = 20
    local_epochs = 1
    [methods.fedavg]
    model = "logistic"                    # or { name = "mlp", hidden = 10 }
    grid.lr = [0.1, 0.01]                 # every combination is tried
    [methods.fedprox_strong]
    algorithm = "fedprox"                 # where it is not the key
    model = "logistic"
    grid.lr = [0.1, 0.01]
    fixed.mu = 1.0
    budget.rounds = 40                    # over the study's; `data` likewise

Names are looked up in the source files of what they name, so that checking needs neither torch nor the data.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import reprlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from bench import registry
from bench.registry import Kind, catalogue, folder
from bench.types import Budget, SpecError, nearest

# A larger study is a slip of the pen: at a hundred runs a second it would take three hours.
MAXIMAL_RUNS = 1_000_000
Rule = Literal["best-val"]  # see bench.sweep.select
OPTIMIZER_HYPERPARAMETERS = {
    "adamw": ("lr", "weight_decay", "lr_decay"),
    "sgd": ("lr", "weight_decay", "lr_decay", "momentum"),
}


@dataclass(frozen=True)
class Choice:
    """Something registered, with its options."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """One method of a study: what is trained, for how long, and the settings to search, in grid order."""

    name: str
    algorithm: Choice
    model: Choice
    data: Choice
    budget: Budget
    settings: tuple[Mapping[str, float], ...]


# The file, section by section ---------------------------------------------------------------------------------


def _choice(value: Any) -> Choice:
    """A name, or a table of a name and options."""
    options = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError('expected a name, or a table with the key "name"')
    return Choice(name, _options(options))


def _options(value: Any) -> dict[str, Any]:
    """What can stand in a record."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("options must be text, finite numbers, true or false, or lists of them") from None
    if not isinstance(value, dict):
        raise ValueError("expected a table of options")
    return value


Named = Annotated[Choice, PlainValidator(_choice)]
Options = Annotated[dict[str, Any], PlainValidator(_options)]
# A method's key is a word of the table's foot; an id is where the files go, below the folder of results.
Key = Annotated[str, Field(pattern=r"^[\w-]+$")]
Id = Annotated[str, Field(pattern=r"^[\w-]+(/[\w-]+)*$")]


class Section(BaseModel):
    """A table of the file; a key it does not know is answered with the nearest one."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, section: Any) -> Any:
        for key in section if isinstance(section, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}: {nearest(key, cls.model_fields)}")
        return section


class BudgetSection(Section):
    rounds: int | None = None
    local_steps: int | None = None
    local_epochs: int | None = None
    batch_size: Any = None  # a number or "full"; Budget has one message for both
    optimizer: str | None = None
    validation: float | None = None
    batches: int | None = None
    optimizer_state: str | None = None


class MethodSection(Section):
    model: Named
    algorithm: Named | None = None
    grid: dict[str, Annotated[list[float], Field(min_length=1)]] = {}
    fixed: dict[str, float] = {}
    budget: BudgetSection = BudgetSection()
    data: Options = {}


class SelectSection(Section):
    rule: Rule = "best-val"


class RowSection(Section):
    """One line of a table: ``method`` as the table calls it, ``of`` the study's method it is made from."""

    method: str
    of: str
    score: Annotated[str, Field(pattern=r"^(own|model \d+)$")] = "own"
    checkpoints: Annotated[list[Literal["latest", "global", "local"]], Field(min_length=1)] = ["global", "local"]


class TableSection(Section):
    """A table to make; without ``metric`` the data set's own. ``printed`` is table:dataset:metric of the paper."""

    id: Id
    rows: Annotated[list[RowSection], Field(min_length=1)]
    title: str | None = None
    metric: str | None = None
    printed: str | None = None
    silo: str = "Silo"
    baselines: list[str] = []
    notes: list[str] = []
    ranks: bool = False
    digits: Annotated[int, Field(ge=0, le=10)] = 3
    one_run: bool = False


class BarsSection(Section):
    """A bar chart with a panel for each of the study's ``tables`` (ids)."""

    id: Id
    kind: Literal["bars"]
    title: str
    tables: Annotated[list[str], Field(min_length=1)]


class AlphaSection(Section):
    """Scores of APFL, the method ``of`` the study, against its learning rate for alpha, the rest as chosen."""

    id: Id
    kind: Literal["alpha"]
    title: str
    of: str
    metric: str | None = None
    checkpoint: Literal["latest", "global", "local"] = "local"


FigureSection = Annotated[BarsSection | AlphaSection, Field(discriminator="kind")]


class StudySection(Section):
    title: str
    seeds: Annotated[list[int], Field(min_length=1)]
    data: Named
    methods: Annotated[dict[Key, MethodSection], Field(min_length=1)]
    paper: str | None = None
    budget: BudgetSection = BudgetSection()
    select: SelectSection = SelectSection()
    tables: list[TableSection] = []
    figures: list[FigureSection] = []


# What a study is once it is read ------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudySpec:
    """A study that can be run: ``methods`` by key in the order of the file, ``tables`` and ``figures`` by id.

    ``paper`` is the folder of experiments/ whose printed numbers stand beside ours, ``rule`` the selection rule.
    """

    file: Path
    title: str
    paper: str | None
    seeds: tuple[int, ...]
    data: str
    rule: Rule
    methods: Mapping[str, Method]
    tables: Mapping[str, TableSection]
    figures: Mapping[str, BarsSection | AlphaSection]

    def methods_behind(self, tables: Iterable[str], figures: Iterable[str]) -> set[str]:
        """The methods whose runs these tables and figures (ids) are made from."""
        drawn = [self.figures[figure] for figure in figures]
        bars = (table for figure in drawn if isinstance(figure, BarsSection) for table in figure.tables)
        rows = {row.of for table in (*tables, *bars) for row in self.tables[table].rows}
        return rows | {figure.of for figure in drawn if isinstance(figure, AlphaSection)}

    def with_a_table(self) -> StudySpec:
        """The study itself, or with one table of all its methods if it names none."""
        if self.tables:
            return self
        rows = [RowSection(method=name, of=name) for name in self.methods]
        table = TableSection(id=re.sub(r"[^\w-]+", "-", self.file.stem), rows=rows)
        return replace(self, tables={table.id: table})

    def printed(self, table: TableSection) -> list[dict[str, Any]]:
        """The printed numbers {method, checkpoint, value, ci95} of ``table``; none is an empty list."""
        return [] if table.printed is None else _printed(self.paper, table.printed)


def read(file: Path) -> StudySpec:
    """The study in ``file``; raises :class:`SpecError` naming the file, the key and what was expected."""
    try:
        section = StudySection.model_validate(_parse(file))
    except ValidationError as error:
        raise SpecError(f"{file}: {_first_fault(error)}") from None
    try:
        return _study(file, section)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None


@dataclass(frozen=True)
class Published:
    """A table or figure of a study in experiments/: its id, title, and the study's file."""

    id: str
    title: str
    file: Path


def published(kind: Literal["tables", "figures"]) -> dict[str, Published]:
    """Every table or figure of the studies in experiments/, by id."""
    found: dict[str, Published] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        content = _parse(file)
        if "methods" not in content:
            continue  # a paper's printed numbers
        study = read(file)
        for section in (study.tables if kind == "tables" else study.figures).values():
            entry = Published(section.id, section.title or study.title, file)
            if entry.id in found:
                raise SpecError(f"{file}: {kind}: {entry.id!r} stands in {found[entry.id].file} already")
            found[entry.id] = entry
    return found


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}; give the path of a study file") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SpecError(f"{file}: {error}") from None


def _first_fault(error: ValidationError) -> str:
    """The first thing pydantic found, in our words."""
    fault = error.errors()[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    match fault["type"]:
        case "value_error":
            return f"{where or 'study'}: {fault['ctx']['error']}"
        case "missing":
            return f"{where} is missing"
        case "too_short":
            return f"{where} is empty; give at least one"
        case "model_type" | "dict_type":
            return f"{where} = {reprlib.repr(fault['input'])}: expected a table"
        case _:
            return f"{where} = {reprlib.repr(fault['input'])}: {fault['msg'].replace('Input should be', 'expected')}"


def _study(file: Path, section: StudySection) -> StudySpec:
    _refuse_repetition("seeds", section.seeds)
    methods = {key: _method(key, method, section) for key, method in section.methods.items()}
    runs = len(section.seeds) * sum(len(method.settings) for method in methods.values())
    if runs > MAXIMAL_RUNS:
        raise SpecError(f"{runs:,} runs are more than {MAXIMAL_RUNS:,}; give fewer values or seeds")
    _refuse_repetition("tables", [table.id for table in section.tables])
    _refuse_repetition("figures", [figure.id for figure in section.figures])
    study = StudySpec(
        file=file,
        title=section.title,
        paper=section.paper,
        seeds=tuple(section.seeds),
        data=section.data.name,
        rule=section.select.rule,
        methods=methods,
        tables={table.id: table for table in section.tables},
        figures={figure.id: figure for figure in section.figures},
    )
    for i, table in enumerate(section.tables):
        _refuse_repetition(f"tables[{i}].rows", [row.method for row in table.rows])
        for j, row in enumerate(table.rows):
            _known(f"tables[{i}].rows[{j}].of", row.of, methods)
        study.printed(table)
    for i, figure in enumerate(section.figures):
        if isinstance(figure, BarsSection):
            for j, table_id in enumerate(figure.tables):
                _known(f"figures[{i}].tables[{j}]", table_id, study.tables)
        else:
            _known(f"figures[{i}].of", figure.of, methods)
    return study


def _refuse_repetition(where: str, values: Iterable[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise SpecError(f"{where}: {value!r} stands more than once")
        seen.add(value)


def _known(where: str, name: str, known: Iterable[str]) -> None:
    if name not in (known := list(known)):
        raise SpecError(f"{where} = {name!r}: {nearest(name, known)}")


def _method(key: str, section: MethodSection, study: StudySection) -> Method:
    where = f"methods.{key}"
    algorithm = section.algorithm or Choice(key, {})
    data = Choice(study.data.name, {**study.data.options, **section.data})
    _check("datasets", data, f"{where}.data" if section.data else "data")
    _check("models", section.model, f"{where}.model")
    _check("algorithms", algorithm, f"{where}.algorithm" if section.algorithm else where)
    try:
        budget = _budget(section.budget, study.budget)
    except SpecError as error:
        raise SpecError(f"{where}.budget: {error}" if section.budget.model_fields_set else f"budget: {error}") from None
    settings = _settings(where, section, algorithm.name, budget.optimizer)
    if len(settings) > 1 and not budget.validation:
        raise SpecError(f"{where}: validation = 0 leaves nothing to choose between {len(settings)} settings by")
    return Method(key, algorithm, section.model, data, budget, settings)


def _budget(own: BudgetSection, study: BudgetSection) -> Budget:
    """The study's budget with the method's own keys over it; local epochs take the place of local steps."""
    keys = study.model_dump(exclude_unset=True)
    if own.model_fields_set & {"local_steps", "local_epochs"}:
        keys = {key: value for key, value in keys.items() if key not in ("local_steps", "local_epochs")}
    keys |= own.model_dump(exclude_unset=True)
    if "rounds" not in keys:
        raise SpecError("rounds is missing")
    return Budget(**keys)


def _settings(where: str, section: MethodSection, algorithm: str, optimizer: str) -> tuple[Mapping[str, float], ...]:
    """All combinations of the grid, the first key changing slowest."""
    known = {*OPTIMIZER_HYPERPARAMETERS[optimizer], *registry.hyperparameters(algorithm)}
    for part, names in (("grid", section.grid), ("fixed", section.fixed)):
        for name in names:
            if name not in known:
                hint = nearest(name, known)
                raise SpecError(f"{where}.{part}: {algorithm} with {optimizer} has no hyper-parameter {name!r}: {hint}")
    for name, values in section.grid.items():
        if name in section.fixed:
            raise SpecError(f"{where}: {name} stands in grid and in fixed; keep one")
        _refuse_repetition(f"{where}.grid.{name}", values)
    combinations = math.prod(map(len, section.grid.values()))
    if combinations > MAXIMAL_RUNS:
        raise SpecError(f"{where}.grid: {combinations:,} combinations are more than {MAXIMAL_RUNS:,}; give fewer")
    combined = itertools.product(*section.grid.values())
    return tuple({**section.fixed, **dict(zip(section.grid, values, strict=True))} for values in combined)


# What the source files say ------------------------------------------------------------------------------------


def _check(kind: Kind, choice: Choice, where: str) -> None:
    """Refuse a name nothing is registered under, and an option its definition does not take."""
    entries = catalogue(kind)
    if choice.name not in entries:
        raise SpecError(f"{where}: unknown {_WORD[kind]} {choice.name!r}: {nearest(choice.name, entries)}")
    known = registry.options(kind, choice.name)
    for option in choice.options:
        if option not in known:
            hint = nearest(option, known) if known else "it has none"
            raise SpecError(f"{where}: {_WORD[kind]} {choice.name} has no option {option!r}: {hint}")


_WORD: dict[Kind, str] = {"algorithms": "algorithm", "datasets": "data set", "models": "model"}


def _printed(paper: str | None, place: str) -> list[dict[str, Any]]:
    """The rows of a paper's printed.csv at ``place`` (table:dataset:metric)."""
    files = {file.parent.name: file for file in folder("experiments").glob("*/printed.csv")}
    if paper not in files:
        hint = nearest(paper, files) if paper else f"name one: {', '.join(sorted(files))}"
        raise SpecError(f"paper = {paper!r} has no printed numbers: {hint}")
    with files[paper].open(encoding="utf-8", newline="") as file:
        numbers = list(csv.DictReader(file))
    places = {":".join((number["table"], number["dataset"], number["metric"])) for number in numbers}
    _known("printed", place, places)
    return [
        {
            "method": number["method"],
            "checkpoint": number["checkpoint"],
            "value": float(number["value"]),
            "ci95": float(number["ci95"]) if number["ci95"] else None,
        }
        for number in numbers
        if ":".join((number["table"], number["dataset"], number["metric"])) == place
    ]
