"""Bar charts of tables, one bar for each method and checkpoint rule.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.report.figures.intervals import error_bar, span
from bench.report.figures.style import (
    BLACK,
    BLUE,
    COLUMN,
    DIAMOND,
    GREY,
    HATCHES,
    ORANGE,
    PAGE,
    PALE,
    STYLE,
    heading,
    height_of,
    key,
    name_ticks,
    plain,
    save,
    worded,
    wrapped,
    write_reason,
)
from bench.report.scores import HEADINGS
from bench.report.tables.table import Cell, Table, titled
from bench.types import SilobenchError

TURN = 60  # degrees that long names below bars are turned by


def bars(tables: Sequence[Table], stem: Path, *, title: str) -> list[Path]:
    """Draw bar charts of tables, one panel each (FENDA-FL, Figures 3 and 6), to ``stem``.pdf and ``stem``.png.

    A method has one bar per checkpoint rule with its interval. The dashed line and band are Silo; printed numbers are
    hollow diamonds. Methods named "<name> S" and "<name> L" are the small and the large model of one method, in two
    colours. A cell without a number shows the reason instead of a bar. Raise :class:`SilobenchError` if a table has no
    number at all.
    """
    widths = [0.6 + 0.2 * len(_drawn(table)) for table in tables]
    width = min(max(COLUMN, sum(widths)), PAGE)
    height = 2.1 + max(height_of(_drawn(table), TURN) for table in tables)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(1, len(tables), width_ratios=widths, squeeze=False)[0]
        for axes, table, share in zip(panels, tables, widths, strict=True):
            _panel(axes, table)
            if len(tables) > 1:
                axes.set_title(wrapped(table.title, width * share / sum(widths)))
        heading(figure, titled(title, any(table.synthetic for table in tables), tables[0].spec.profile))
        entries = {entry.get_label(): entry for table in tables for entry in _key(table)}
        key(figure, list(entries.values()))
        return save(figure, stem)


def _drawn(table: Table) -> list[str]:
    """Return the methods with bars: all but Silo, which is the dashed line."""
    return [row.method for row in table.spec.rows if row.method != table.spec.silo]


def _panel(axes: Axes, table: Table) -> None:
    methods = _drawn(table)
    ends = [end for cell in table.overall for end in _ends(table, cell)]
    if not ends:
        raise SilobenchError(f"figure of {table.spec.id}: no cell has a number; run the missing ones first")
    # Bars from zero would hide the intervals. They start at a round number, which the axis label states.
    floor = math.floor((min(ends) - 0.01) * 20) / 20
    for place, method in enumerate(methods):
        cells = [cell for cell in table.overall if cell.method == method]
        width = 0.8 / len(cells)
        for number, cell in enumerate(cells):
            _bar(axes, table, cell, place - 0.4 + width * (number + 0.5), width, _colour(table, method), floor)
    _silo(axes, table)
    name_ticks(axes, [_label(method) for method in methods], TURN, mathematics=True)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_ylim(floor, max(ends) + 0.05 * (max(ends) - floor))
    axes.set_ylabel(f"{worded(table.spec.metric)} (axis from {floor:g})")


def _ends(table: Table, cell: Cell) -> list[float]:
    """Return the lower and upper ends of everything that a cell draws."""
    pairs = ((cell.mean, cell.ci95), (cell.printed, cell.printed_ci95))
    return [end for mean, radius in pairs if mean is not None for end in span(mean, radius, table.spec.bounds)]


def _colour(table: Table, method: str) -> str:
    small, large = (GREY, PALE) if method in table.spec.baselines else (BLUE, ORANGE)
    return large if method.endswith(" L") else small


def _label(method: str) -> str:
    """Return a method's label, with the S or L of small and large models as a subscript."""
    name, _, size = method.rpartition(" ")
    return f"{plain(name)}$_{{\\mathrm{{{size}}}}}$" if size in ("S", "L") else plain(method)


def _bar(axes: Axes, table: Table, cell: Cell, x: float, width: float, colour: str, floor: float) -> None:
    if cell.mean is None:
        write_reason(axes, x, cell.note)
    else:
        hatch = HATCHES[cell.checkpoint]
        axes.bar(
            x, cell.mean - floor, width, bottom=floor, facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0.3
        )
        if cell.ci95 is not None:
            error_bar(axes, x, cell.mean, cell.ci95, table.spec.bounds, fmt="none", ecolor=BLACK, lw=0.8, capsize=1.5)
    if cell.printed is not None:
        error_bar(axes, x, cell.printed, cell.printed_ci95, table.spec.bounds, **DIAMOND)


def _silo(axes: Axes, table: Table) -> None:
    """Draw the mean and interval of Silo's last checkpoint, which verdicts and asterisks refer to."""
    for cell in [cell for cell in table.overall if cell.method == table.spec.silo][-1:]:
        if cell.mean is not None:
            axes.axhline(cell.mean, color=BLACK, ls="--", lw=0.8)
            axes.axhspan(*span(cell.mean, cell.ci95, table.spec.bounds), color=BLACK, alpha=0.1, lw=0, zorder=0)


def _key(table: Table) -> list[Artist]:
    """Return legend entries for hatches, colours, the line and the diamonds."""
    drawn = _drawn(table)
    entries: list[Artist] = [
        Patch(facecolor=BLUE, edgecolor="white", hatch=HATCHES[checkpoint], label=HEADINGS[checkpoint])
        for checkpoint in table.checkpoints
        if any(table.cell(method, checkpoint) for method in drawn)
    ]
    if any(method.endswith(" L") for method in drawn):
        entries.append(Patch(facecolor=ORANGE, label="large model"))
    if set(drawn) & set(table.spec.baselines):
        entries.append(Patch(facecolor=GREY, label="baseline"))
    if table.spec.silo and len(drawn) < len(table.spec.rows):
        entries.append(Line2D([], [], color=BLACK, ls="--", lw=0.8, label=table.spec.silo))
    if any(cell.printed is not None for cell in table.overall):
        entries.append(Line2D([], [], ls="", label="printed", **DIAMOND))
    return entries
