"""A bar for each method and client of a table.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.report.figures.intervals import error_bar, span
from bench.report.figures.style import (
    BLACK,
    COLUMN,
    DIAMOND,
    PAGE,
    STYLE,
    face,
    heading,
    height_of,
    key,
    name_ticks,
    save,
    worded,
    write_reason,
)
from bench.report.scores import HEADINGS
from bench.report.tables.table import Cell, Table
from bench.types import SilobenchError

TURN = 30  # degrees that long names of clients are turned by


def client_bars(table: Table, stem: Path, *, title: str) -> list[Path]:
    """Draw a bar with its interval for every row of a table on every client (APPLE, Figures 2 and 7, third line).

    Write ``stem``.pdf and ``stem``.png. Raise :class:`SilobenchError` if no client has a number.
    """
    lines = rows_by_client(table)
    ends = [
        end
        for _, cells in lines
        for cell in cells
        if cell.mean is not None
        for end in span(cell.mean, cell.ci95, table.spec.bounds)
    ]
    if not ends:
        raise SilobenchError(f"figure of {table.spec.id}: no client has a number; run the missing ones first")
    # Bars from zero would hide the differences. They start at a round number, which the axis label states.
    floor = max(math.floor((min(ends) - 0.01) * 20) / 20, 0.0)
    width = min(max(COLUMN, 0.6 + 0.09 * len(table.clients) * (len(lines) + 1)), PAGE)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 2.3 + height_of(table.clients, TURN)), layout="constrained")
        axes = figure.subplots()
        share = 0.8 / len(lines)
        for number, (_, cells) in enumerate(lines):
            for place, cell in enumerate(cells):
                _bar(axes, table, cell, place - 0.4 + share * (number + 0.5), share, face(number), floor)
        name_ticks(axes, table.clients, TURN)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(table.spec.block.removesuffix("s"))
        axes.set_ylabel(f"{worded(table.spec.metric)} (axis from {floor:g})")
        axes.set_ylim(floor, max(ends) + 0.05 * (max(ends) - floor))
        key(figure, [Patch(**face(number), label=name) for number, (name, _) in enumerate(lines)])
        heading(figure, title)
        return save(figure, stem)


def rows_by_client(table: Table) -> list[tuple[str, list[Cell]]]:
    """Return the label and the cells by client of each row and checkpoint of a table."""
    several = len(table.checkpoints) > 1
    return [
        (
            f"{row.method}, {HEADINGS[checkpoint].lower()}" if several else row.method,
            [
                cell
                for cell in table.cells
                if (cell.method, cell.checkpoint) == (row.method, checkpoint) and cell.client != "all"
            ],
        )
        for row in table.spec.rows
        for checkpoint in row.checkpoints
    ]


def _bar(axes: Axes, table: Table, cell: Cell, x: float, width: float, fill: dict[str, Any], floor: float) -> None:
    if cell.mean is None:
        write_reason(axes, x, cell.note, size=4)
        return
    axes.bar(x, cell.mean - floor, width, bottom=floor, linewidth=0.2, **fill)
    if cell.ci95 is not None:
        error_bar(axes, x, cell.mean, cell.ci95, table.spec.bounds, fmt="none", ecolor=BLACK, lw=0.5, capsize=0.8)
    if cell.printed is not None:
        axes.plot(x, cell.printed, **{**DIAMOND, "ms": 2})
