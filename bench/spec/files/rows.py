"""Rows of tables and figures: labels and checkpoints derived from the methods, and lists of rows given by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import registry
from bench.limits import MAX_DEPTH, MAX_ROWS
from bench.spec.files.merge import table_of
from bench.spec.sections.faults import StudyError
from bench.spec.sections.tables import Checkpoint
from bench.types import nearest

Where = tuple[str | int, ...]
COUNTS = ("parameters", "floats_up", "floats_down")  # values that are the same at every checkpoint


def with_rows(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``content`` of a study whose tables and figures of curves list rows in full; raises :class:`StudyError`.

    ``rows`` of a table may be missing (all methods), the name of one of the study's ``[rows]``, or a list of keys of
    methods, names of ``[rows]`` and tables.
    """
    made = dict(content)
    named, methods = content.get("rows", {}), content.get("methods", {})
    if not isinstance(named, dict):
        raise StudyError(("rows",), "expected a table of lists")
    if not isinstance(methods, dict):
        return made
    data = content.get("data")
    total = 0
    for kind in ("tables", "figures"):
        if not isinstance(entries := content.get(kind, []), list):
            continue
        made[kind] = list(entries)
        for number, entry in enumerate(entries):
            if _has_rows(kind, entry):
                rows = _rows((kind, number, "rows"), entry, named, methods)
                total += len(rows) if isinstance(rows, list) else 1
                _refuse_many((kind, number, "rows"), total * (len(data) if isinstance(data, list) else 1))
                made[kind][number] = entry | {"rows": rows}
    return made


def checkpoints(algorithm: str, shown: list[Checkpoint] | None = None) -> list[Checkpoint]:
    """Return those of the ``shown`` checkpoints (server and local) that an algorithm has.

    Local training and personalised algorithms, whose clients keep models of their own, have no server checkpoint;
    nor has central training, whose one client makes it the local one.
    """
    shown = ["global", "local"] if shown is None else shown
    if algorithm in registry.catalogue("algorithms"):
        flags = registry.flags(algorithm)
        if flags["personalised"] or flags["pooled"]:
            return [checkpoint for checkpoint in shown if checkpoint != "global"]
    return shown


def _has_rows(kind: str, entry: Any) -> bool:
    return isinstance(entry, dict) and (kind == "tables" or entry.get("kind") == "curves")


def _rows(where: Where, entry: Mapping[str, Any], named: Mapping[str, Any], methods: Mapping[str, Any]) -> Any:
    rows = entry.get("rows", list(methods))
    if isinstance(rows, str):
        if rows not in named:
            hint = nearest(rows, named) if named else "the study has no [rows]; give a list"
            raise StudyError(where, f"no list of rows is called {rows!r}: {hint}")
        where, rows = ("rows", rows), named[rows]
    if not isinstance(rows, list):
        return rows
    return [_row(at, row, entry, methods) for at, row in _entries(where, rows, named, methods, {})]


def _entries(
    where: Where,
    rows: list[Any],
    named: Mapping[str, Any],
    methods: Mapping[str, Any],
    known: dict[str, list[tuple[Where, Any]]],
    inside: tuple[str, ...] = (),
) -> list[tuple[Where, Any]]:
    """Return key and entry of every row; names of lists are replaced by their entries, which ``known`` collects."""
    found: list[tuple[Where, Any]] = []
    for number, row in enumerate(rows):
        if isinstance(row, str) and row not in methods and isinstance(named.get(row), list):
            if row in inside:
                raise StudyError((*where, number), f"the list of rows {row!r} contains itself")
            if len(inside) == MAX_DEPTH:
                raise StudyError((*where, number), f"lists of rows inside each other; expected at most {MAX_DEPTH}")
            if row not in known:
                known[row] = _entries(("rows", row), named[row], named, methods, known, (*inside, row))
            found += known[row]
        else:
            found.append(((*where, number), row))
        _refuse_many(where, len(found))
    return found


def _refuse_many(where: Where, rows: int) -> None:
    if rows > MAX_ROWS:
        raise StudyError(where, f"more than {MAX_ROWS:,} rows in all tables and figures; give fewer")


def _row(where: Where, row: Any, entry: Mapping[str, Any], methods: Mapping[str, Any]) -> Any:
    row = {"of": row} if isinstance(row, str) else row
    if not isinstance(row, dict) or not isinstance(key := row.get("of"), str):
        return row
    method = methods.get(key)  # an unknown method is refused when names are looked up
    method = method if isinstance(method, dict) else {}
    made = {"method": method.get("label", key), **row}
    if "kind" in entry or "checkpoints" in row:
        return made
    shown = entry.get("checkpoints", ["local"] if entry.get("value") in COUNTS else None)
    if not (shown is None or isinstance(shown, list)):
        return made
    algorithm = table_of(method.get("algorithm"))
    name = str(algorithm.get("name")) if isinstance(algorithm, dict) else key
    made["checkpoints"] = checkpoints(name, shown)
    if shown and not made["checkpoints"]:
        raise StudyError(where, f"{name} has no server checkpoint; give the row checkpoints of its own")
    return made
