"""The study that a checked file describes: names looked up, methods, tables and figures of every data set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from bench.limits import MAX_STUDY_RUNS
from bench.spec.files import placeholders
from bench.spec.files.profiles import PAPER
from bench.spec.looked_up import check_choice, method_of
from bench.spec.method import Method
from bench.spec.sections.faults import StudyError, first_fault, shown
from bench.spec.sections.figures import (
    BarsSection,
    CurvesSection,
    Figure,
    FigureSection,
    OfMethod,
    OfTable,
    PartitionSection,
)
from bench.spec.sections.keys import Choice, Section
from bench.spec.sections.names import check_file_name, check_label
from bench.spec.sections.study import StudySection
from bench.spec.sections.tables import TableSection
from bench.spec.study import StudySpec, labelled
from bench.types import SpecError, nearest

S = TypeVar("S", bound=Section)


def build(file: Path, section: StudySection, profile: str = PAPER) -> StudySpec:
    """Return the study that ``section`` describes; raises :class:`StudyError` with the key and what was expected."""
    _refuse_repetition(("seeds",), section.seeds)
    data = {_label(each): each for each in section.data}
    if len(data) < len(section.data):
        raise StudyError(("data",), 'two data sets have the same name; give each a label = "..." of its own')
    methods = _methods(section, data)
    runs = len(section.seeds) * sum(method.tried for method in methods.values())
    if runs > MAX_STUDY_RUNS:
        raise StudyError((), f"{runs:,} runs are more than {MAX_STUDY_RUNS:,}; give fewer values or seeds")
    tables = [(i, each) for label in data for i, each in enumerate(_tables(section, data, label))]
    figures = [(i, each) for i, figure in enumerate(section.figures) for each in _figures(section, data, i, figure)]
    for kind, made in (("tables", tables), ("figures", figures)):
        _refuse_repetition((kind,), [each.id for _, each in made])
        for i, each in made:
            _fitting((kind, i, "id"), check_file_name, each.id if profile == PAPER else f"{each.id}-{profile}")
    study = StudySpec(
        file=file,
        title=_title(section, data),
        paper=section.paper,
        seeds=tuple(section.seeds),
        data=tuple(data),
        rule=section.select.rule,
        methods=methods,
        tables={table.id: table for _, table in tables},
        figures={figure.id: figure for _, figure in figures},
        profile=profile,
    )
    for i, table in tables:
        _check_table(i, table, study)
    for i, figure in figures:
        _check_figure(i, figure, study)
    return study


def _label(data: Choice) -> str:
    """Return the label of a data set, by default its name."""
    label = data.options.get("label", data.name)
    if not isinstance(label, str):
        raise StudyError(("data", "label"), f"expected a text, got {shown(label)}")
    _fitting(("data", "label"), check_label, label)
    return label


def _fitting(where: tuple[str | int, ...], check: Callable[[str], object], value: str) -> None:
    """Raise :class:`StudyError` for a value that ``check`` refuses."""
    try:
        check(value)
    except ValueError as error:
        raise StudyError(where, str(error)) from None


def _methods(section: StudySection, data: Mapping[str, Choice]) -> dict[str, Method]:
    """Return the methods by key; with several data sets a key is "method@label"."""
    made = {}
    for label, choice in data.items():
        check_choice("datasets", choice, ("data",))
        for key, method in section.methods.items():
            name = f"{key}@{label}" if len(data) > 1 else key
            made[name] = method_of(name, key, method, section, choice)
    return made


def _title(section: StudySection, data: Mapping[str, Choice]) -> str:
    label, *others = data
    texts = section.placeholders if others else _texts(section, data, label)
    return _fill(("title",), section.title, texts)


def _texts(section: StudySection, data: Mapping[str, Choice], label: str) -> dict[str, Any]:
    """Return the texts of all placeholders, for one of the data sets."""
    options = {key: value for key, value in data[label].options.items() if key != "label"}
    return placeholders.of_data(label, data[label].name, options) | section.placeholders


def _fill(where: tuple[str | int, ...], value: Any, texts: Mapping[str, Any]) -> Any:
    try:
        return placeholders.filled(value, texts)
    except SpecError as error:
        raise StudyError(where, str(error)) from None


def _filled(where: tuple[str | int, ...], section: S, texts: Mapping[str, Any]) -> S:
    """Return a table or figure with its placeholders replaced."""
    written = section.model_dump()
    if (made := _fill(where, written, texts)) == written:
        return section
    try:
        return type(section).model_validate(made)
    except ValidationError as error:
        fault = first_fault(error)
        raise StudyError((*where, *fault.where), fault.text) from None


def _names_data(text: str) -> bool:
    """Return whether a placeholder of ``text`` names the data set."""
    return any(name.partition(".")[0] == "data" for name in placeholders.names(text))


def _for_data(name: str, label: str) -> str:
    """Return the id for one of several data sets: as its placeholders say, else with the label added."""
    return name if _names_data(name) else labelled(name, label)


def _tables(section: StudySection, data: Mapping[str, Choice], label: str) -> Iterable[TableSection]:
    """Yield the study's tables for its only data set, or for one of several."""
    texts = _texts(section, data, label)
    for i, table in enumerate(section.tables):
        update: dict[str, Any] = {}
        if len(data) > 1:
            title = table.title or section.title
            update = {
                "id": _for_data(table.id, label),
                "title": title if _names_data(title) else f"{title} ({label})",
                "rows": [row.model_copy(update={"of": f"{row.of}@{label}"}) for row in table.rows],
                "against": [f"{method}@{label}" for method in table.against],
            }
        yield _filled(("tables", i), table.model_copy(update=update), texts)


def _figures(
    section: StudySection, data: Mapping[str, Choice], number: int, figure: FigureSection
) -> Iterable[FigureSection]:
    """Yield a figure; for several data sets one for each, unless the figure itself names "method@label"."""
    where = ("figures", number)
    own = {table.id for table in section.tables}
    if len(data) == 1:
        yield _filled(where, figure, _texts(section, data, *data))
    elif not (set(figure.drawn) <= own and figure.methods <= set(section.methods)):
        yield _filled(where, figure, section.placeholders)
    else:
        for label in data:
            title = figure.title if _names_data(figure.title) else f"{figure.title} ({label})"
            update = {"id": _for_data(figure.id, label), "title": title, **_references(figure, label)}
            yield _filled(where, figure.model_copy(update=update), _texts(section, data, label))


def _references(figure: Figure, label: str) -> dict[str, Any]:
    """Return a figure's tables, methods or data set for the data set with this label."""
    match figure:
        case BarsSection():
            return {"tables": [_for_data(table, label) for table in figure.tables]}
        case OfTable():
            return {"table": _for_data(figure.table, label)}
        case OfMethod():
            return {"of": f"{figure.of}@{label}"}
        case CurvesSection():
            return {"rows": [row.model_copy(update={"of": f"{row.of}@{label}"}) for row in figure.rows]}
        case _:
            return {"data": label}


# Checks -----------------------------------------------------------------------------------------------------------


def _check_table(i: int, table: TableSection, study: StudySpec) -> None:
    where = ("tables", i)
    names = dict.fromkeys(row.method for row in table.rows)
    _refuse_repetition((*where, "rows"), [row.method for row in table.rows])
    for j, row in enumerate(table.rows):
        _known((*where, "rows", j, "of"), row.of, study.methods)
    for method in table.against:
        _known((*where, "against"), method, study.methods)
    for baseline in table.baselines:
        _known((*where, "baselines"), baseline, names)
    try:
        study.printed(table)
    except SpecError as error:
        raise StudyError(where, str(error)) from None


def _check_figure(i: int, figure: FigureSection, study: StudySpec) -> None:
    where = ("figures", i)
    for table in figure.drawn:
        _known((*where, "tables" if isinstance(figure, BarsSection) else "table"), table, study.tables)
    for method in sorted(figure.methods):
        _known((*where, "rows" if isinstance(figure, CurvesSection) else "of"), method, study.methods)
    if isinstance(figure, PartitionSection) and figure.data is not None:
        _known((*where, "data"), figure.data, study.data)


def _refuse_repetition(where: tuple[str | int, ...], values: Iterable[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise StudyError(where, f"{value!r} is given twice")
        seen.add(value)


def _known(where: tuple[str | int, ...], name: str, known: Collection[str]) -> None:
    if name not in known:
        raise StudyError(where, f"unknown name {name!r}: {nearest(name, known)}")
