"""Joint tables: files whose tables have one column for each of several studies.

::

    paper = "player"                        # whose printed mean ranks are shown
    [defaults]                              # keys that all joint tables share
    checkpoint = "local"
    columns = [{ table = "{table}-emnist", label = "EMNIST" }, { table = "{table}-heart", label = "Heart" }]
    rows = ["Local", "FedAvg"]              # as those tables name them, or the name of one of [rows]
    [[joint]]
    id = "player/1"
    title = "PLayer-FL, Table 1"
    placeholders.table = "player/1"         # replaces {table}
    [[figures]]                             # a critical-difference diagram of a joint table
    id = "player/1-ranks"
    kind = "cd"
    title = "PLayer-FL, Table 1: mean ranks"
    table = "player/1"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.spec import printed
from bench.spec.files import placeholders
from bench.spec.files.merge import merged
from bench.spec.files.toml import parse
from bench.spec.sections.faults import StudyError, first_fault
from bench.spec.sections.figures import RanksSection
from bench.spec.sections.joint import JoinedSection, JointSection
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Joined:
    """Joint tables and the diagrams made from them, by id."""

    file: Path
    paper: str | None
    tables: Mapping[str, JointSection]
    figures: Mapping[str, RanksSection]

    def printed_ranks(self, table: JointSection) -> dict[str, float]:
        """Return the printed mean ranks by method, empty if there are none."""
        if table.printed_ranks is None:
            return {}
        return {number.method: number.value for number in printed.at(self.paper, table.printed_ranks)}


def read(file: Path, known: Collection[str]) -> Joined:
    """Return the joint tables in ``file``, made from ``known`` tables (ids); raises :class:`SpecError`."""
    try:
        return _build(file, JoinedSection.model_validate(_expanded(parse(file))), known)
    except ValidationError as error:
        raise SpecError(f"{file}: {first_fault(error)}") from None
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None


def _expanded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``content`` with defaults, lists of rows and placeholders written out."""
    made = {key: value for key, value in content.items() if key not in ("defaults", "rows")}
    defaults, rows, joint = content.get("defaults", {}), content.get("rows", {}), content["joint"]
    for key, value, kind in (("defaults", defaults, dict), ("rows", rows, dict), ("joint", joint, list)):
        if not isinstance(value, kind):
            raise StudyError((key,), f"expected a {'table' if kind is dict else 'list of tables, [[joint]]'}")
    made["joint"] = [_entry(number, entry, defaults, rows) for number, entry in enumerate(joint)]
    return made


def _entry(number: int, entry: Any, defaults: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
    if not isinstance(entry, dict):
        return entry
    made = merged(defaults, entry)
    if isinstance(name := made.get("rows"), str):
        if name not in rows:
            hint = nearest(name, rows) if rows else "the file has no [rows]; give a list"
            raise StudyError(("joint", number, "rows"), f"no list of rows is called {name!r}: {hint}")
        made["rows"] = rows[name]
    texts = made.pop("placeholders", {})
    if not isinstance(texts, dict):
        raise StudyError(("joint", number, "placeholders"), "expected a table")
    try:
        return placeholders.filled(made, texts)
    except SpecError as error:
        raise StudyError(("joint", number), str(error)) from None


def _build(file: Path, section: JoinedSection, known: Collection[str]) -> Joined:
    for key in ("joint", "figures"):
        _refuse_repetition((key,), [each.id for each in getattr(section, key)])
    joined = Joined(
        file, section.paper, {each.id: each for each in section.joint}, {each.id: each for each in section.figures}
    )
    for number, table in enumerate(section.joint):
        where = ("joint", number)
        _refuse_repetition((*where, "rows"), table.rows)
        _refuse_repetition((*where, "columns"), [column.label for column in table.columns])
        for column in table.columns:
            if column.table not in known:
                raise StudyError((*where, "columns"), f"unknown table {column.table!r}: {nearest(column.table, known)}")
        joined.printed_ranks(table)
    for number, figure in enumerate(section.figures):
        if figure.table not in joined.tables:
            hint = nearest(figure.table, joined.tables)
            raise StudyError(("figures", number, "table"), f"unknown joint table {figure.table!r}: {hint}")
    return joined


def _refuse_repetition(where: tuple[str | int, ...], values: list[str]) -> None:
    if twice := sorted({value for value in values if values.count(value) > 1}):
        raise StudyError(where, f"{twice[0]!r} is given twice")
