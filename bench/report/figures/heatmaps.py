"""Figures of single clients: a heat map of a table's rows by clients, and a bar for each row and client.

Importing this loads matplotlib, so import it where something is drawn.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

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
)
from bench.report.scores import HEADINGS
from bench.report.tables.table import Cell, Table
from bench.types import SilobenchError

TURN = 30  # degrees that long names of clients are turned by


def heatmap(table: Table, stem: Path, *, title: str) -> list[Path]:
    """Every row of a table on every client (FENDA-FL, Figure 2); writes ``stem``.pdf and ``stem``.png.

    Printed numbers stand in parentheses below ours. Raises :class:`SilobenchError` when no client has a number.
    """
    lines = _lines(table)
    values = np.array([[np.nan if cell.mean is None else cell.mean for cell in cells] for _, cells in lines])
    if np.isnan(values).all():
        raise SilobenchError(f"figure of {table.spec.id}: no client has a number; run the missing ones first")
    printed = any(cell.printed is not None for _, cells in lines for cell in cells)
    width = min(max(COLUMN, 1.2 + 0.42 * values.shape[1]), PAGE)
    height = 0.9 + (0.3 if printed else 0.2) * len(lines) + height_of(table.clients, TURN)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        shades = "cividis" if table.spec.sign > 0 else "cividis_r"
        image = axes.imshow(values, cmap=shades, aspect="auto")
        for row, (_, cells) in enumerate(lines):
            for column, cell in enumerate(cells):
                behind = "white" if cell.mean is None else image.to_rgba(np.array(cell.mean))
                words: dict[str, Any] = {"color": _readable_on(behind), "ha": "center", "va": "center", "fontsize": 5.5}
                axes.text(column, row, _words(table, cell), **words)
        name_ticks(axes, table.clients, TURN)
        axes.set_yticks(range(len(lines)), [name for name, _ in lines])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("tested on")
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(worded(table.spec.metric) + (" (printed in parentheses)" if printed else ""))
        heading(figure, title)
        return save(figure, stem)


def client_bars(table: Table, stem: Path, *, title: str) -> list[Path]:
    """A bar with its interval for every row of a table on every client (APPLE, Figures 2 and 7, third line).

    Writes ``stem``.pdf and ``stem``.png. Raises :class:`SilobenchError` when no client has a number.
    """
    lines = _lines(table)
    ends = [
        cell.mean + side * (cell.ci95 or 0.0)
        for _, cells in lines
        for cell in cells
        if cell.mean is not None
        for side in (-1, 1)
    ]
    if not ends:
        raise SilobenchError(f"figure of {table.spec.id}: no client has a number; run the missing ones first")
    # Bars from zero would hide the differences; they grow from a round number instead, and the axis label says so.
    # No score lies below 0, whatever an interval of few runs says.
    floor = max(math.floor((min(ends) - 0.01) * 20) / 20, 0.0)
    width = min(max(COLUMN, 0.6 + 0.09 * len(table.clients) * (len(lines) + 1)), PAGE)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 2.3 + height_of(table.clients, TURN)), layout="constrained")
        axes = figure.subplots()
        share = 0.8 / len(lines)
        for number, (_, cells) in enumerate(lines):
            for place, cell in enumerate(cells):
                _bar(axes, cell, place - 0.4 + share * (number + 0.5), share, face(number), floor)
        name_ticks(axes, table.clients, TURN)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(table.spec.block.removesuffix("s"))
        axes.set_ylabel(f"{worded(table.spec.metric)} (axis from {floor:g})")
        axes.set_ylim(floor, max(ends) + 0.05 * (max(ends) - floor))
        key(figure, [Patch(**face(number), label=name) for number, (name, _) in enumerate(lines)])
        heading(figure, title)
        return save(figure, stem)


def _lines(table: Table) -> list[tuple[str, list[Cell]]]:
    """The rows of a table, one for each checkpoint, with the cells of its clients."""
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


def _readable_on(colour: Any) -> str:
    """Black or white, whichever has more contrast (WCAG 2, relative luminance)."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return BLACK if np.dot(parts, (0.2126, 0.7152, 0.0722)) > 0.179 else "white"


def _words(table: Table, cell: Cell) -> str:
    ours = cell.note.replace(" ", "\n", 1) if cell.mean is None else f"{cell.mean:.{table.spec.digits}f}"
    return ours if cell.printed is None else f"{ours}\n({cell.printed:.{table.spec.digits}f})"


def _bar(axes: Axes, cell: Cell, x: float, width: float, fill: dict[str, Any], floor: float) -> None:
    if cell.mean is None:
        place = axes.get_xaxis_transform()
        axes.text(x, 0.02, cell.note, transform=place, ha="center", va="bottom", rotation=90, fontsize=4)
        return
    axes.bar(x, cell.mean - floor, width, bottom=floor, linewidth=0.2, **fill)
    if cell.ci95 is not None:
        axes.errorbar(x, cell.mean, cell.ci95, fmt="none", ecolor=BLACK, lw=0.5, capsize=0.8)
    if cell.printed is not None:
        axes.plot(x, cell.printed, **{**DIAMOND, "ms": 2})
