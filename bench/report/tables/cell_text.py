"""Texts of single cells, as every form of a table shows them."""

from __future__ import annotations

from typing import NamedTuple

from bench.report.tables.table import Cell, Table


class Shown(NamedTuple):
    """The rounded texts of a cell; empty where the cell has nothing to show."""

    ours: str
    normal: str
    printed: str
    difference: str
    verdict: str


def shown(cell: Cell, digits: int) -> Shown:
    """Return the texts of ``cell``; without a number its note is shown instead."""
    normal = "" if cell.normal95 is None else f"{cell.normal95:.{digits}f}"
    printed = _number(cell.printed, cell.printed_ci95, cell.printed_above_silo, digits)
    if cell.mean is None:
        return Shown(cell.note, "", printed, "", "")
    # Rounding first and adding zero avoids "-0.000".
    gap = "" if cell.printed is None else f"{round(cell.mean - cell.printed, digits) + 0.0:+.{digits}f}"
    return Shown(_number(cell.mean, cell.ci95, cell.above_silo, digits), normal, printed, gap, cell.verdict)


def _number(mean: float | None, radius: float | None, starred: bool, digits: int) -> str:
    if mean is None:
        return ""
    spread = "" if radius is None else f" ± {radius:.{digits}f}"
    return f"{mean:.{digits}f}{spread}{'*' * starred}"


def summary(table: Table) -> str:
    """Return the heading of the cells over all clients, where clients are columns."""
    return "Mean" if table.spec.summary == "mean" else "Mean rank"


def digits(table: Table, cell: Cell) -> int:
    """Return the number of decimals that a cell is shown with."""
    return 2 if table.spec.summary == "rank" and cell.client == "all" else table.spec.digits
