"""What a paper prints, and the kinds of claim that can be held against it cell by cell.

A kind is a function ``(printed, **arguments) -> ClaimResult`` marked as such; the arguments are the keys of a claim in
``experiments/<paper>/audit.toml``. Further kinds: :mod:`bench.report.audit.rank_claims` and
:mod:`bench.report.audit.count_claims`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeVar

import scipy

from bench.report import statistics
from bench.spec import fact
from bench.types import SpecError, nearest

Where = dict[str, str | list[str]]  # column: the value or values that are meant
COLUMN = ("table", "dataset", "metric")  # what one column of a printed table has in common
NAMES = (*COLUMN, "method", "checkpoint", "client")  # what tells one cell from another
SLACK = 1e-9  # decimals such as 0.1 + 0.2 miss their sum in the last bit


@dataclass(frozen=True)
class PrintedCell:
    """A row of printed.csv: where the number stands, what it is, and how it is printed.

    ``scale`` is 100 for a share that the paper prints in percent. ``digits`` of the value follow the point in its
    column of the table; -1 stands for powers of ten.
    """

    table: str
    dataset: str
    metric: str
    method: str
    checkpoint: str
    client: str
    value: float
    ci95: float | None
    sd: float | None
    marks: tuple[str, ...]
    digits: int
    scale: int

    def shown(self, value: float | None = None, more: int = 0) -> str:
        """The value, or another of its kind, as the paper would print it, with ``more`` digits."""
        own = self.value if value is None else value
        if self.digits < 0:
            return f"{own:.1e}"
        return f"{own * self.scale:.{max(0, self.digits - round(math.log10(self.scale))) + more}f}"

    @property
    def unit(self) -> float:
        """Half a unit of the last digit of the value."""
        return 0.5 * 10.0**-self.digits

    def get(self, column: Literal["value", "sd", "ci95"]) -> float:
        """The number in this column; raises :class:`SpecError` where none is printed."""
        number: float | None = getattr(self, column)
        if number is None:
            raise SpecError(f"no {column} is printed of {label(self, NAMES)}")
        return number


@dataclass(frozen=True)
class ClaimPart:
    """One number or comparison of a claim: as printed, as recomputed, and whether the one follows from the other."""

    what: str
    printed: str
    recomputed: str
    follows: bool


class ClaimResult(NamedTuple):
    """The parts of a claim, whether it follows as a whole (None: it cannot be checked), and why, where that helps."""

    parts: tuple[ClaimPart, ...]
    follows: bool | None
    why: str = ""


Kind = TypeVar("Kind", bound=Callable[..., ClaimResult])
KINDS: dict[str, Callable[..., ClaimResult]] = {}


def kind(function: Kind) -> Kind:
    """Offer the decorated function as a kind of claim, under its own name."""
    KINDS[function.__name__] = function
    return function


def every(parts: Sequence[ClaimPart], why: str = "") -> ClaimResult:
    """A claim that follows when all its ``parts`` do."""
    return ClaimResult(tuple(parts), all(part.follows for part in parts), why)


@dataclass(frozen=True)
class Printed:
    """A paper's printed numbers: ``facts`` of its paper.toml, ``cells`` of its printed.csv, names of method groups."""

    facts: Mapping[str, Any]
    cells: tuple[PrintedCell, ...] = ()
    groups: Mapping[str, Sequence[str]] | None = None

    def select(self, where: Where) -> list[PrintedCell]:
        """The cells ``where`` means; raises :class:`SpecError` for a column or value that is not there."""
        cells = list(self.cells)
        for column, wanted in where.items():
            if column not in NAMES:
                raise SpecError(f"{column!r} is no column of the printed numbers: {nearest(column, NAMES)}")
            named = [wanted] if isinstance(wanted, str) else wanted
            values = {value for name in named for value in (self.groups or {}).get(name, [name])}
            present = {getattr(cell, column) for cell in cells}
            for value in sorted(values - present):
                raise SpecError(
                    f"nothing is printed with {column} = {value!r} in {words(where)}: {nearest(value, present)}"
                )
            cells = [cell for cell in cells if getattr(cell, column) in values]
        return cells

    def fact(self, path: str) -> Any:
        """What stands at ``path`` of paper.toml, see :func:`bench.spec.fact`."""
        return fact(self.facts, path)

    def number(self, source: str | float) -> float:
        """``source`` itself, or the number at that path of paper.toml."""
        value = self.fact(source) if isinstance(source, str) else source
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(f"{source!r} = {value!r} in paper.toml: expected a number")
        return value


def half_unit(number: float) -> float:
    """Half a unit of the last digit that ``number`` is written with."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(0, int(exponent))


def near(recomputed: float, printed: float, tolerance: float | None = None) -> bool:
    """Whether ``recomputed`` rounds to ``printed``, or lies within another ``tolerance``."""
    return bool(abs(recomputed - printed) <= (half_unit(printed) if tolerance is None else tolerance) + SLACK)


def grouped(cells: Iterable[PrintedCell], each: Sequence[str]) -> list[list[PrintedCell]]:
    """``cells`` that have ``each`` of these columns in common, in the order of the table."""
    groups: dict[tuple[str, ...], list[PrintedCell]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, column) for column in each), []).append(cell)
    return list(groups.values())


def better_checkpoints(cells: Sequence[PrintedCell]) -> list[PrintedCell]:
    """Of every method its best checkpoint in each column and client, as FENDA-FL ranks strategies."""
    return [max(same, key=lambda cell: cell.value) for same in grouped(cells, [*COLUMN, "method", "client"])]


def varying(cells: Sequence[PrintedCell], columns: Iterable[str]) -> list[str]:
    """Those of ``columns``, each once, that tell the cells apart."""
    return [column for column in dict.fromkeys(columns) if len({getattr(cell, column) for cell in cells}) > 1]


def label(cell: PrintedCell, columns: Sequence[str]) -> str:
    """The cell's place in words, without what says nothing."""
    return ", ".join(getattr(cell, column) for column in columns if getattr(cell, column) not in ("", "all"))


def words(where: Where) -> str:
    """``where`` in words, for messages."""
    return ", ".join(f"{column} {wanted}" for column, wanted in where.items())


# The kinds ----------------------------------------------------------------------------------------------------


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
    """Every one of ``cells`` lies above every one of ``than`` that has the same ``each``.

    ``by`` "radius" asks for value - radius > other + its radius, "difference" for more than the radius of the
    difference of independent values (the root of both squared radii), "overlap" only for intervals that meet. ``of``
    compares deviations or radii instead; with ``below`` smaller is meant. With ``best`` only the highest of ``cells``
    counts, with ``pairs`` only these methods are compared. ``at_least`` so many comparisons must hold, else all. Where
    no checkpoint is named a method counts by its better one.
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
    """How far apart two values must be."""
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
    """In every column the cells with ``mark`` hold the best value, or that at another ``place``.

    Where several are best it is enough that one carries the mark: more digits may have decided.
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
    """A star stands exactly where value - radius > silo + silo's radius, and nowhere on the methods ``never`` starred.

    A star on an exact tie follows: rounding leaves it open.
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
def average(
    printed: Printed, of: Where | list[Where], equals: Where | float | str, each: tuple[str, ...] = ("method",)
) -> ClaimResult:
    """The mean of the cells ``of`` is the printed ``equals``, with the same ``each``."""
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
    """What two tables both print is the same; ``called`` gives methods of ``cells`` their names in ``others``."""

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
    return every(parts, f"{len(parts)} cells stand in both")


@kind
def distinct(
    printed: Printed,
    cells: Where,
    at_most: int,
    of: Literal["method", "table"] = "method",
    columns: tuple[Literal["value", "sd", "ci95"], ...] = ("value", "ci95"),
    within: tuple[str, ...] = (),
) -> ClaimResult:
    """No two methods (or tables) have more than ``at_most`` cells alike in all ``columns``, counted ``within`` each.

    Cells of two methods belong together in one column of a table; cells of two tables whatever their metric.
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
    """Every radius is that of the normal interval of its standard deviation over so many ``runs`` of its data set."""
    parts, by_t = [], 0
    for cell in printed.select(cells):
        root = math.sqrt(runs[cell.dataset])
        normal = float(scipy.stats.norm.ppf((1 + level) / 2))
        t = float(scipy.stats.t.ppf((1 + level) / 2, runs[cell.dataset] - 1))
        told, sd = cell.get("ci95"), cell.get("sd")
        # Both the radius and the deviation behind it are rounded.
        slack = cell.unit * (1 + normal / root)
        by_t += near(t * sd / root, told, slack)
        again = f"{cell.shown(normal * sd / root, more=1)} from {cell.shown(sd)}"
        follows = near(normal * sd / root, told, slack)
        parts.append(ClaimPart(label(cell, ("table", "method", "client")), cell.shown(told), again, follows))
    held = sum(part.follows for part in parts)
    return every(parts, f"normal intervals fit {held} of {len(parts)} radii, t intervals {by_t}")


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
    """How far ``method`` lies above the better or worse of ``others``, mean over clients, in the paper's unit.

    ``value`` is the path of {dataset: {metric: number}} in paper.toml, or of one number. A number that the paper calls
    ``about`` so (named as dataset.metric) may be off by one unit of its last digit, others by half a unit. A
    ``relative`` lift is in percent of the other.
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


@kind
def unprinted(printed: Printed, because: str) -> ClaimResult:
    """A claim that no printed number can confirm or refute."""
    return ClaimResult((), None, because)
