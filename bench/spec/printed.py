"""The numbers that papers print, ``experiments/<paper>/printed.csv``, as the tables beside them need them."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from bench.registry import folder
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Number:
    """A printed number and its radius, None where none is printed; ``client`` is a name, a number, or "all"."""

    method: str
    checkpoint: str
    value: float
    ci95: float | None = None
    client: str = "all"

    def scaled(self, unit: float) -> Number:
        """The same in a unit so many times as small."""
        return replace(self, value=self.value * unit, ci95=None if self.ci95 is None else self.ci95 * unit)


def at(paper: str | None, place: str, *, by_client: bool = False) -> list[Number]:
    """What ``paper`` prints at ``place`` (table:dataset:metric): over all clients, and ``by_client`` also for each.

    Raises :class:`SpecError` for a paper or place without printed numbers.
    """
    files = {file.parent.name: file for file in folder("experiments").glob("*/printed.csv")}
    if paper not in files:
        hint = nearest(paper, files) if paper else f"name one: {', '.join(sorted(files))}"
        raise SpecError(f"paper = {paper!r} has no printed numbers: {hint}")
    places = _places(files[paper], files[paper].stat().st_mtime_ns)
    if place not in places:
        raise SpecError(f"printed = {place!r}: {nearest(place, places)}")
    numbers = places[place]
    kept = [number for number in numbers if by_client or number.client == "all"]
    if not kept:
        raise SpecError(f'printed = {place!r} has numbers of single clients only; set columns = "clients"')
    return kept


@lru_cache(16)
def _places(file: Path, changed: int) -> dict[str, list[Number]]:
    """All numbers of a file, last changed at that time, by place."""
    places: dict[str, list[Number]] = {}
    with file.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            radius = float(row["ci95"]) if row["ci95"] else None
            number = Number(row["method"], row["checkpoint"], float(row["value"]), radius, row["client"] or "all")
            places.setdefault(":".join((row["table"], row["dataset"], row["metric"])), []).append(number)
    return places
