"""Claims that printed numbers are consistent: averages, repeated numbers, distinct rows, and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Literal

import scipy

from bench.report import statistics
from bench.report.audit.claims import (
    NAMES,
    ClaimPart,
    ClaimResult,
    Printed,
    PrintedCell,
    Where,
    every,
    grouped,
    kind,
    label,
    near,
    varying,
    words,
)
from bench.types import SpecError


@kind
def average(
    printed: Printed, of: Where | list[Where], equals: Where | float | str, each: tuple[str, ...] = ("method",)
) -> ClaimResult:
    """Check that the mean of the cells ``of`` is the printed ``equals`` with the same ``each``."""
    places = [of] if isinstance(of, dict) else of
    parts = []
    for group in grouped((cell for where in places for cell in printed.select(where)), each):
        mean = statistics.mean([cell.value for cell in group])
        if isinstance(equals, dict):
            same = [
                cell
                for cell in printed.select(equals)
                if all(getattr(cell, column) == getattr(group[0], column) for column in each)
            ]
            if len(same) != 1:
                raise SpecError(f"{len(same)} cells of {words(equals)} belong to {label(group[0], each)}, expected one")
            (cell,) = same
            told, again, follows = cell.shown(), cell.shown(mean, more=1), near(mean, cell.value, cell.unit)
        else:
            goal = printed.number(equals)
            told, again, follows = f"{goal:g}", f"{mean:.4f}", near(mean, goal)
        parts.append(ClaimPart(label(group[0], each) or f"mean of {len(group)}", told, again, follows))
    return every(parts)


@kind
def same(printed: Printed, cells: Where, others: Where, called: dict[str, str] | None = None) -> ClaimResult:
    """Check that two tables print equal numbers; ``called`` gives methods of ``cells`` their names in ``others``."""

    def place(cell: PrintedCell, called: Mapping[str, str]) -> tuple[str, ...]:
        return (called.get(cell.method, cell.method), cell.dataset, cell.metric, cell.checkpoint, cell.client)

    known = {place(cell, {}): cell for cell in printed.select(others)}
    parts = []
    for cell in printed.select(cells):
        other = known.get(place(cell, called or {}))
        if other is not None:
            radii = None in (cell.ci95, other.ci95) or cell.ci95 == other.ci95
            what = label(cell, NAMES[1:])
            parts.append(ClaimPart(what, cell.shown(), cell.shown(other.value), cell.value == other.value and radii))
    if not parts:
        raise SpecError(f"{words(cells)} and {words(others)} have no cell in common")
    return every(parts, f"{len(parts)} cells are in both")


@kind
def distinct(
    printed: Printed,
    cells: Where,
    at_most: int,
    of: Literal["method", "table"] = "method",
    columns: tuple[Literal["value", "sd", "ci95"], ...] = ("value", "ci95"),
    within: tuple[str, ...] = (),
) -> ClaimResult:
    """Check that no two methods (or tables) have more than ``at_most`` cells equal in all ``columns``.

    Cells are counted ``within`` equal values of these columns. Cells of two methods are compared in one column of a
    table, cells of two tables across metrics.
    """
    chosen = printed.select(cells)
    key = varying(chosen, [column for column in NAMES if column != of and (of, column) != ("table", "metric")])
    parts = []
    for group in grouped(chosen, within):
        numbers: dict[str, dict[str, tuple[float | None, ...]]] = {}
        for cell in group:
            own = numbers.setdefault(getattr(cell, of), {})
            own[" ".join(getattr(cell, column) for column in key)] = tuple(getattr(cell, column) for column in columns)
        place = label(group[0], within)
        for a, b in combinations(numbers, 2):
            shared = numbers[a].keys() & numbers[b].keys()
            alike = [name for name in sorted(shared) if numbers[a][name] == numbers[b][name]]
            if len(alike) > at_most:
                names = f"{a} and {b}" if of == "method" else f"Tables {a} and {b}"
                which = f": {alike[0]}" if len(alike) == 1 else ""
                found = f"{len(alike)} of {len(shared)} alike{which}"
                parts.append(ClaimPart(names + (f" ({place})" if place else ""), "apart", found, False))
    what = f"every two {of}s" + (f", by {' and '.join(within)}" if within else "")
    return every(parts or [ClaimPart(what, "apart", f"at most {at_most} alike", True)])


@kind
def interval(printed: Printed, cells: Where, runs: dict[str, int], level: float = 0.95) -> ClaimResult:
    """Check that every radius is that of the normal interval of its standard deviation; ``runs`` are by data set."""
    parts, by_t = [], 0
    for cell in printed.select(cells):
        root = math.sqrt(runs[cell.dataset])
        normal = float(scipy.stats.norm.ppf((1 + level) / 2))
        t = float(scipy.stats.t.ppf((1 + level) / 2, runs[cell.dataset] - 1))
        told, sd = cell.get("ci95"), cell.get("sd")
        # Both the radius and its deviation are rounded.
        slack = cell.unit * (1 + normal / root)
        by_t += near(t * sd / root, told, slack)
        again = f"{cell.shown(normal * sd / root, more=1)} from {cell.shown(sd)}"
        follows = near(normal * sd / root, told, slack)
        parts.append(ClaimPart(label(cell, ("table", "method", "client")), cell.shown(told), again, follows))
    held = sum(part.follows for part in parts)
    return every(parts, f"normal intervals fit {held} of {len(parts)} radii, t intervals {by_t}")


@kind
def unprinted(printed: Printed, because: str) -> ClaimResult:
    """Report a claim that no printed number can confirm or refute."""
    return ClaimResult((), None, because)
