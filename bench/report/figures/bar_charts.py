"""Figures drawn from tables and run values, as vector pdf and png, the same bytes every time.

Importing this loads matplotlib, so import it where something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from bench.report import statistics
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
    face,
    heading,
    height_of,
    key,
    name_ticks,
    save,
    worded,
    wrapped,
)
from bench.report.scores import HEADINGS
from bench.report.tables.table import Cell, Table, titled
from bench.types import SilobenchError

TURN = 60  # degrees that long names below bars are turned by


def bars(tables: Sequence[Table], stem: Path, *, title: str) -> list[Path]:
    """Bar charts of tables, one panel each (FENDA-FL, Figures 3 and 6); writes ``stem``.pdf and ``stem``.png.

    A method has one bar per checkpoint rule with its interval; the dashed line and band are silo; printed numbers are
    hollow diamonds. Methods named "<name> S" and "<name> L" are the small and the large model of one method, told
    apart by colour. A cell without a number shows its reason instead of a bar. Raises :class:`SilobenchError` when
    a table has no number at all.
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


def alpha_study(
    runs: Mapping[float, Sequence[float | None]],
    stem: Path,
    *,
    title: str,
    metric: str,
    printed: Mapping[float, float] | None = None,
) -> list[Path]:
    """The metric against APFL's learning rate for alpha (FENDA-FL, Figure 4); writes ``stem``.pdf and ``stem``.png.

    ``runs`` maps a learning rate to one value per run, None for a run without one; such a rate gets its count
    in words, never a point. Line and band are mean and 95 % t interval; ``printed`` means are hollow diamonds.
    Raises :class:`SilobenchError` when no rate has all its values.
    """
    defined = {rate: statistics.defined(values) for rate, values in sorted(runs.items())}
    whole = {rate: values for rate, values in defined.items() if values and len(values) == len(runs[rate])}
    if not whole:
        raise SilobenchError(f"figure {title}: no learning rate for alpha has all its runs; run the missing ones first")
    means = [statistics.mean(values) for values in whole.values()]
    radii = [statistics.t_radius(values) or 0.0 for values in whole.values()]
    low = [mean - radius for mean, radius in zip(means, radii, strict=True)]
    high = [mean + radius for mean, radius in zip(means, radii, strict=True)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(COLUMN, 2.4), layout="constrained")
        axes = figure.subplots()
        axes.fill_between(list(whole), low, high, color=BLUE, alpha=0.2, lw=0, label="95 % t interval")
        axes.plot(list(whole), means, "o-", color=BLUE, ms=3, lw=1, label="ours")
        if printed:
            axes.plot(list(printed), list(printed.values()), ls="", label="printed", **DIAMOND)
        for rate in sorted(set(runs) - set(whole)):
            _reason(axes, rate, f"{len(runs[rate]) - len(defined[rate])}/{len(runs[rate])} without a value")
        axes.set_xscale("log")
        axes.set_xticks(sorted(runs))
        axes.minorticks_off()
        heading(figure, title)
        axes.set(xlabel="learning rate of α", ylabel=worded(metric))
        key(figure, axes.get_legend_handles_labels()[0])
        return save(figure, stem)


def partition(counts: Sequence[Sequence[int]], clients: Sequence[str], stem: Path, *, title: str) -> list[Path]:
    """Who holds which classes (APPLE, Figures 5 and 6); writes ``stem``.pdf and ``stem``.png.

    ``counts[i][k]`` are client i's samples of class k. On the left every class is a bar of its clients, on the right
    every client a bar of its classes.
    """
    by_client = np.array(counts)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PAGE, max(2.6, 0.6 + 0.13 * max(by_client.shape))), layout="constrained")
        left, right = figure.subplots(1, 2)
        classes = [str(k) for k in range(by_client.shape[1])]
        _stacked(left, by_client, classes, list(clients), "class", "client")
        _stacked(right, by_client.T, list(clients), classes, "client", "class")
        heading(figure, title)
        return save(figure, stem)


def _stacked(axes: Axes, parts: NDArray[Any], bars: list[str], names: list[str], along: str, of: str) -> None:
    """Bars stacked from ``parts`` (names, bars)."""
    bottom = np.zeros(len(bars))
    for number, (name, part) in enumerate(zip(names, parts, strict=True)):
        axes.bar(range(len(bars)), part, bottom=bottom, linewidth=0.2, label=name, **face(number))
        bottom = bottom + part
    name_ticks(axes, bars, TURN)
    axes.set_xlabel(along)
    axes.set_ylabel("training samples")
    axes.legend(title=of, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.4)


def _drawn(table: Table) -> list[str]:
    """Methods with bars: all but silo, which is the dashed line."""
    return [row.method for row in table.spec.rows if row.method != table.spec.silo]


def _panel(axes: Axes, table: Table) -> None:
    methods = _drawn(table)
    ends = [end for cell in table.overall for end in _ends(cell)]
    if not ends:
        raise SilobenchError(f"figure of {table.spec.id}: no cell has a number; run the missing ones first")
    # Bars from zero would hide the intervals; they grow from a round number instead, and the axis label says so.
    floor = math.floor((min(ends) - 0.01) * 20) / 20
    for place, method in enumerate(methods):
        cells = [cell for cell in table.overall if cell.method == method]
        width = 0.8 / len(cells)
        for number, cell in enumerate(cells):
            _bar(axes, cell, place - 0.4 + width * (number + 0.5), width, _colour(table, method), floor)
    _silo(axes, table)
    name_ticks(axes, [_label(method) for method in methods], TURN)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_ylim(floor, max(ends) + 0.05 * (max(ends) - floor))
    axes.set_ylabel(f"{worded(table.spec.metric)} (axis from {floor:g})")


def _ends(cell: Cell) -> list[float]:
    """The lower and upper ends of what a cell draws."""
    pairs = ((cell.mean, cell.ci95), (cell.printed, cell.printed_ci95))
    return [mean + sign * (radius or 0.0) for mean, radius in pairs if mean is not None for sign in (-1, 1)]


def _colour(table: Table, method: str) -> str:
    small, large = (GREY, PALE) if method in table.spec.baselines else (BLUE, ORANGE)
    return large if method.endswith(" L") else small


def _label(method: str) -> str:
    """Small and large models get a subscript: "FedAvg S" reads FedAvg with S below the line."""
    name, _, size = method.rpartition(" ")
    return f"{name}$_{{\\mathrm{{{size}}}}}$" if size in ("S", "L") else method


def _bar(axes: Axes, cell: Cell, x: float, width: float, colour: str, floor: float) -> None:
    if cell.mean is None:
        _reason(axes, x, cell.note)
    else:
        hatch = HATCHES[cell.checkpoint]
        axes.bar(
            x, cell.mean - floor, width, bottom=floor, facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0.3
        )
        if cell.ci95 is not None:
            axes.errorbar(x, cell.mean, cell.ci95, fmt="none", ecolor=BLACK, lw=0.8, capsize=1.5)
    if cell.printed is not None:
        axes.errorbar(x, cell.printed, cell.printed_ci95 or 0.0, **DIAMOND)


def _reason(axes: Axes, x: float, reason: str) -> None:
    """Words where a number would have stood."""
    middle = axes.get_xaxis_transform()
    axes.text(x, 0.02, reason, transform=middle, ha="center", va="bottom", rotation=90, fontsize=5)


def _silo(axes: Axes, table: Table) -> None:
    """The mean and interval that verdicts and asterisks are held against: silo's last checkpoint."""
    for cell in [cell for cell in table.overall if cell.method == table.spec.silo][-1:]:
        if cell.mean is not None:
            radius = cell.ci95 or 0.0
            axes.axhline(cell.mean, color=BLACK, ls="--", lw=0.8)
            axes.axhspan(cell.mean - radius, cell.mean + radius, color=BLACK, alpha=0.1, lw=0, zorder=0)


def _key(table: Table) -> list[Artist]:
    """What hatches, colours, line and diamonds mean."""
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
