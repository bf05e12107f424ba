"""Printed numbers of a paper, and the registry of kinds of claims that are checked against them.

A kind is a function ``(printed, **arguments) -> ClaimResult`` decorated with :func:`kind`; its arguments are the keys
of a claim in ``experiments/<paper>/audit.toml``. The modules ``*_claims`` of this package define the kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeVar

from bench.spec import fact
from bench.types import SpecError, nearest

Where = dict[str, str | list[str]]  # wanted value or values by column
COLUMN = ("table", "dataset", "metric")  # equal within one column of a printed table
NAMES = (*COLUMN, "method", "checkpoint", "client")  # together they identify a cell
SLACK = 1e-9  # sums of decimals such as 0.1 + 0.2 miss their value in the last bit


@dataclass(frozen=True)
class PrintedCell:
    """A row of printed.csv: the place of the number, its value, and how it is printed.

    ``scale`` is 100 for a share that the paper prints in percent. ``digits`` is the number of decimals in its column
    of the table; -1 means scientific notation.
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
        """Return the value, or another of its kind, as the paper would print it, with ``more`` digits."""
        own = self.value if value is None else value
        if self.digits < 0:
            return f"{own:.1e}"
        return f"{own * self.scale:.{max(0, self.digits - round(math.log10(self.scale))) + more}f}"

    @property
    def unit(self) -> float:
        """Half a unit of the last digit of the value."""
        return 0.5 * 10.0**-self.digits

    def get(self, column: Literal["value", "sd", "ci95"]) -> float:
        """Return the number in this column; raise :class:`SpecError` if none is printed."""
        number: float | None = getattr(self, column)
        if number is None:
            raise SpecError(f"no {column} is printed for {label(self, NAMES)}")
        return number


@dataclass(frozen=True)
class ClaimPart:
    """One number or comparison of a claim: as printed, as recomputed, and whether the printed one follows."""

    what: str
    printed: str
    recomputed: str
    follows: bool


class ClaimResult(NamedTuple):
    """The parts of a claim, whether it follows as a whole (None: it cannot be checked), and the reason."""

    parts: tuple[ClaimPart, ...]
    follows: bool | None
    why: str = ""


Kind = TypeVar("Kind", bound=Callable[..., ClaimResult])
KINDS: dict[str, Callable[..., ClaimResult]] = {}


def kind(function: Kind) -> Kind:
    """Register the decorated function as a kind of claim, under its own name."""
    KINDS[function.__name__] = function
    return function


def every(parts: Sequence[ClaimPart], why: str = "") -> ClaimResult:
    """Return the result of a claim that follows if all its ``parts`` do."""
    return ClaimResult(tuple(parts), all(part.follows for part in parts), why)


@dataclass(frozen=True)
class Printed:
    """Printed numbers of a paper: ``facts`` of paper.toml, ``cells`` of printed.csv, and ``groups`` of methods."""

    facts: Mapping[str, Any]
    cells: tuple[PrintedCell, ...] = ()
    groups: Mapping[str, Sequence[str]] | None = None

    def select(self, where: Where) -> list[PrintedCell]:
        """Return the cells that match ``where``; raise :class:`SpecError` for an unknown column or value."""
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
        """Return the value at ``path`` of paper.toml, see :func:`bench.spec.fact`."""
        return fact(self.facts, path)

    def number(self, source: str | float) -> float:
        """Return ``source`` itself, or the number at that path of paper.toml."""
        value = self.fact(source) if isinstance(source, str) else source
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(f"{source!r} = {value!r} in paper.toml: expected a number")
        return value


def half_unit(number: float) -> float:
    """Return half a unit of the last digit that ``number`` is written with."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(0, int(exponent))


def near(recomputed: float, printed: float, tolerance: float | None = None) -> bool:
    """Return whether ``recomputed`` rounds to ``printed``, or differs by at most ``tolerance``."""
    return bool(abs(recomputed - printed) <= (half_unit(printed) if tolerance is None else tolerance) + SLACK)


def grouped(cells: Iterable[PrintedCell], each: Sequence[str]) -> list[list[PrintedCell]]:
    """Return groups of ``cells`` with equal values in the columns ``each``, in the order of the table."""
    groups: dict[tuple[str, ...], list[PrintedCell]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, column) for column in each), []).append(cell)
    return list(groups.values())


def better_checkpoints(cells: Sequence[PrintedCell]) -> list[PrintedCell]:
    """Return the best checkpoint of every method in each column and client, as FENDA-FL ranks strategies."""
    return [max(same, key=lambda cell: cell.value) for same in grouped(cells, [*COLUMN, "method", "client"])]


def varying(cells: Sequence[PrintedCell], columns: Iterable[str]) -> list[str]:
    """Return those ``columns``, each once, in which the cells differ."""
    return [column for column in dict.fromkeys(columns) if len({getattr(cell, column) for cell in cells}) > 1]


def label(cell: PrintedCell, columns: Sequence[str]) -> str:
    """Return the cell's place as text, without empty values and "all"."""
    return ", ".join(getattr(cell, column) for column in columns if getattr(cell, column) not in ("", "all"))


def words(where: Where) -> str:
    """Return ``where`` as text, for messages."""
    return ", ".join(f"{column} {wanted}" for column, wanted in where.items())


def number_text(value: Any) -> str:
    """Return a number as text: whole numbers with thousands separators, others short."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{value!r} in paper.toml: expected a number")
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:g}"
