"""Numbers that papers print, for the tables that show them next to ours.

Results are in ``experiments/<paper>/printed.csv``. Its ``paper.toml`` holds facts: descriptions of the experiments
(sizes, settings, numbers of parameters) and results of settings that have no name.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from bench.registry import folder
from bench.spec.files.toml import parse
from bench.spec.sections.tables import RowSection
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Number:
    """A printed number and its radius, None if none is printed; ``client`` is a name, a number, or "all"."""

    method: str
    checkpoint: str
    value: float
    ci95: float | None = None
    client: str = "all"

    def scaled(self, unit: float) -> Number:
        """Return the number times ``unit``."""
        return replace(self, value=self.value * unit, ci95=None if self.ci95 is None else self.ci95 * unit)


def at(paper: str | None, place: str, *, by_client: bool = False) -> list[Number]:
    """Return the numbers of ``paper`` at ``place`` (table:dataset:metric), with ``by_client`` those of clients, too.

    Raises :class:`SpecError` for a paper or place without printed numbers.
    """
    file = _file(paper, "printed.csv")
    places = _places(file, file.stat().st_mtime_ns)
    if place not in places:
        raise SpecError(f"printed = {place!r}: there is no such place: {nearest(place, places)}")
    return _kept(places[place], place, by_client=by_client)


def of_row(paper: str | None, row: RowSection, *, by_client: bool = False) -> list[Number]:
    """Return the numbers of the fact of ``paper`` that a row of a table names, an empty list if it names none.

    It is a number, a table of ``value`` and ``ci95``, or a table of numbers by client. Raises :class:`SpecError` for
    a paper or place without any.
    """
    if row.printed is None:
        return []
    number = partial(Number, row.method, row.checkpoints[0])
    match fact(parse(_file(paper, "paper.toml")), row.printed):
        case int(value) | float(value):
            return [number(value)]
        case {"value": int(value) | float(value), "ci95": int(radius) | float(radius)}:
            return [number(value, radius)]
        case dict(clients) if clients and all(isinstance(value, int | float) for value in clients.values()):
            numbers = [number(value, client=client) for client, value in clients.items()]
            return _kept(numbers, row.printed, by_client=by_client)
        case found:
            raise SpecError(f"printed = {row.printed!r} is {found!r} in paper.toml: expected numbers")


def _file(paper: str | None, name: str) -> Path:
    """Return the paper's file of this name."""
    files = {file.parent.name: file for file in folder("experiments").glob(f"*/{name}")}
    if paper not in files:
        hint = nearest(paper, files) if paper else f"name one: {', '.join(sorted(files))}"
        raise SpecError(f"paper = {paper!r} has no printed numbers: {hint}")
    return files[paper]


def _kept(numbers: list[Number], place: str, *, by_client: bool) -> list[Number]:
    kept = [number for number in numbers if by_client or number.client == "all"]
    if not kept:
        raise SpecError(f'printed = {place!r} has numbers of single clients only; set columns = "clients"')
    return kept


def fact(facts: Mapping[str, Any], path: str) -> Any:
    """Return the value at ``path`` (keys, and indices of list entries, with dots between them) of a paper.toml.

    Raises :class:`SpecError` if there is none.
    """
    found: Any = facts
    for key in path.split("."):
        if isinstance(found, list) and key.isdecimal() and len(key) < 10 and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            hint = nearest(key, found) if isinstance(found, Mapping) else "there is no such entry"
            raise SpecError(f"{path!r} is not in paper.toml, there is no {key!r}: {hint}")
    return found


@lru_cache(16)
def _places(file: Path, changed: int) -> dict[str, list[Number]]:
    """Return all numbers of a file by place; ``changed`` is the time of its last change."""
    places: dict[str, list[Number]] = {}
    with file.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            radius = float(row["ci95"]) if row["ci95"] else None
            number = Number(row["method"], row["checkpoint"], float(row["value"]), radius, row["client"] or "all")
            places.setdefault(":".join((row["table"], row["dataset"], row["metric"])), []).append(number)
    return places
