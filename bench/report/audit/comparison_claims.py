"""Claims that compare cells of printed tables: better than, marked as best, starred, and lifts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from bench.report import statistics
from bench.report.audit.claims import (
    COLUMN,
    SLACK,
    ClaimPart,
    ClaimResult,
    Printed,
    PrintedCell,
    Where,
    better_checkpoints,
    every,
    grouped,
    half_unit,
    kind,
    label,
    near,
    varying,
    words,
)
from bench.types import SpecError


@kind
def above(
    printed: Printed,
    cells: Where,
    than: Where,
    each: tuple[str, ...] = COLUMN,
    by: Literal["value", "radius", "difference", "overlap"] = "value",
    of: Literal["value", "sd", "ci95"] = "value",
    below: bool = False,
    or_equal: bool = False,
    best: bool = False,
    pairs: list[tuple[str, str]] | None = None,
    at_least: int | None = None,
) -> ClaimResult:
    """Check that each of ``cells`` is above each of ``than`` with the same ``each``.

    ``by`` "radius" requires value - radius > other + its radius, "difference" more than the radius of the difference of
    independent values (the root of the sum of both squared radii), "overlap" only intervals that overlap. ``of``
    compares deviations or radii instead; ``below`` asks for smaller values. With ``best`` only the highest of ``cells``
    counts, with ``pairs`` only these methods are compared. ``at_least`` is the number of comparisons that must hold
    (default: all). If no checkpoint is named, a method counts by its better one.
    """
    left, right = printed.select(cells), printed.select(than)
    left = left if "checkpoint" in cells else better_checkpoints(left)
    right = right if "checkpoint" in than else better_checkpoints(right)
    if best:
        left = [max(group, key=lambda cell: cell.value) for group in grouped(left, each)]
    places = varying(left, [column for column in (*each, "client") if column != "method"])
    parts = []
    for a in left:
        for b in right:
            if a == b or any(getattr(a, column) != getattr(b, column) for column in each):
                continue
            if pairs is not None and (a.method, b.method) not in pairs:
                continue
            gap = (a.get(of) - b.get(of)) * (-1 if below else 1) - _needed(a, b, by)
            holds = gap > SLACK or ((or_equal or by == "overlap") and gap > -SLACK)
            one, other = (a.method, b.method) if a.method != b.method else (f"{a.method} {a.checkpoint}", b.checkpoint)
            place = label(a, places)
            told = ("below" if below else "above") + (" or equal" if or_equal else "")
            numbers = f"{_with_radius(a, of, by)} against {_with_radius(b, of, by)}"
            parts.append(ClaimPart(f"{one} against {other}" + (f" ({place})" if place else ""), told, numbers, holds))
    if not parts:
        raise SpecError(f"no cell of {words(cells)} can be compared with one of {words(than)}")
    held = sum(part.follows for part in parts)
    return ClaimResult(
        tuple(parts), held >= (len(parts) if at_least is None else at_least), f"{held} of {len(parts)} hold"
    )


def _needed(a: PrintedCell, b: PrintedCell, by: str) -> float:
    """Return the difference that two values must exceed."""
    if by == "value":
        return 0.0
    radii = a.get("ci95"), b.get("ci95")
    return {"radius": sum(radii), "difference": math.hypot(*radii), "overlap": -sum(radii)}[by]


def _with_radius(cell: PrintedCell, of: Literal["value", "sd", "ci95"], by: str) -> str:
    text = cell.shown(cell.get(of))
    return text if by == "value" else f"{text} ± {cell.shown(cell.get('ci95'))}"


@kind
def marked(
    printed: Printed,
    cells: Where,
    mark: str,
    each: tuple[str, ...] = COLUMN,
    below: bool = False,
    place: int = 1,
) -> ClaimResult:
    """Check that in every column the cells with ``mark`` hold the best value, or that at another ``place``.

    If several values are equal, one of their cells must carry the mark, because further digits may have decided.
    """
    chosen = better_checkpoints(printed.select(cells))
    names = varying(chosen, (*each, "client"))
    parts = []
    for column in grouped(chosen, each):
        values = sorted({cell.value for cell in column}, reverse=not below)
        if len(values) < place:
            raise SpecError(f"{label(column[0], each)} has {len(values)} values and no place {place}")
        best = [cell for cell in column if cell.value == values[place - 1]]
        carrying = [cell for cell in column if mark in cell.marks]
        follows = bool(carrying) and all(cell in best for cell in carrying)
        parts.append(ClaimPart(label(column[0], names), _named(carrying) or f"no {mark}", _named(best), follows))
    return every(parts)


def _named(cells: Iterable[PrintedCell]) -> str:
    return ", ".join(f"{cell.method} {cell.shown()}" for cell in cells)


@kind
def starred(printed: Printed, cells: Where, silo: str = "Silo", never: tuple[str, ...] = ()) -> ClaimResult:
    """Check that exactly the cells with value - radius > silo + its radius have a star, and no method in ``never``.

    A star on an exact tie follows, because of rounding.
    """
    parts, ties, without = [], 0, 0
    for column in grouped(printed.select(cells), COLUMN):
        (base,) = (cell for cell in column if cell.method == silo)
        for cell in column:
            gap = cell.value - base.value - _needed(cell, base, "radius")
            star = "star" in cell.marks
            if cell.method in never:
                without += gap > SLACK
            elif cell != base:
                ties += star and abs(gap) <= SLACK
                what = label(cell, ("method", "checkpoint", "dataset", "metric"))
                numbers = f"{_with_radius(cell, 'value', 'radius')} against {_with_radius(base, 'value', 'radius')}"
                follows = star == (gap > SLACK) or abs(gap) <= SLACK
                parts.append(ClaimPart(what, "star" if star else "no star", numbers, follows))
    why = f"{len(parts)} cells; {ties} star{'s' * (ties != 1)} on an exact tie"
    if without:
        why += f"; {without} of {', '.join(never)} pass the rule without a star"
    return every(parts, why)


@kind
def lift(
    printed: Printed,
    method: str,
    others: list[str],
    table: str | list[str],
    over: Literal["better", "worse"],
    value: str,
    about: tuple[str, ...] = (),
    relative: bool = False,
    client: str | None = None,
) -> ClaimResult:
    """Check how far ``method`` lies above the better or worse of ``others``, mean over clients, in the paper's unit.

    ``value`` is the path of {dataset: {metric: number}} in paper.toml, or of one number. Numbers that the paper calls
    approximate (``about``, named as dataset.metric) may be off by one unit of their last digit, others by half a unit.
    A ``relative`` lift is in percent of the other value.
    """
    where: Where = {"table": table, "method": [method, *others]}
    told = printed.fact(value)
    parts = []
    for column in grouped(printed.select(where | {"client": client} if client else where), ("dataset", "metric")):
        gaps = []
        for own in (cell for cell in column if cell.method == method):
            rest = [cell.value for cell in column if cell.client == own.client and cell.method != method]
            other = max(rest) if over == "better" else min(rest)
            gaps.append(100 * (own.value - other) / other if relative else (own.value - other) * own.scale)
        dataset, metric = column[0].dataset, column[0].metric
        goal = told if isinstance(told, int | float) else told[dataset][metric]
        tolerance = half_unit(goal) * (2 if f"{dataset}.{metric}" in about else 1)
        gap = statistics.mean(gaps)
        parts.append(ClaimPart(f"{dataset}, {metric}", f"{goal:g}", f"{gap:.2f}", near(gap, goal, tolerance)))
    return every(parts)
