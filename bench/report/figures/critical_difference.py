"""Critical-difference diagram: mean ranks on a line; a bar joins methods that do not differ by Nemenyi's test.

Source: Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, Figure 1. Importing this
module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from bench.report.figures.style import BLACK, BLUE, COLUMN, STYLE, plain, save, wrapped
from bench.report.ranks import RankReport

# Inches: from one line of text to the next, free at either side, between a name and its line.
LINE, MARGIN, GAP = 0.14, 0.08, 0.03
THIN: dict[str, Any] = {"color": BLACK, "lw": 0.6, "solid_capstyle": "butt", "solid_joinstyle": "miter"}
THICK: dict[str, Any] = {"color": BLUE, "lw": 2.4, "solid_capstyle": "round"}


def critical_difference(report: RankReport, stem: Path, *, title: str, block: str = "clients") -> list[Path]:
    """Draw the mean ranks of a :class:`RankReport`, best on the left, to ``stem``.pdf and ``stem``.png.

    Methods under one bar do not differ at 0.05; the ruler above the line of ranks is one critical difference long.
    ``block`` is what the ranks are averaged over, in the plural.
    """
    with mpl.rc_context(STYLE):
        title = wrapped(title, COLUMN)
        layout = _Layout.of(report, top=LINE * (5.2 + title.count("\n")))
        figure = Figure(figsize=(COLUMN, layout.height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        # Inches from the upper left corner.
        axes.set(xlim=(0, COLUMN), ylim=(layout.height, 0))
        _scale(axes, report, layout)
        _bars(axes, report, layout)
        _names(axes, report, layout)
        figure.suptitle(title, y=1 - 0.3 * LINE / layout.height)
        note = f"mean rank over {report.blocks} {block}, 1 is best; Friedman p = {report.p:.2g}"
        axes.text(COLUMN / 2, layout.height - 0.6 * LINE, plain(note), ha="center", va="bottom", fontsize=6)
        return save(figure, stem)


@dataclass(frozen=True)
class _Layout:
    """Positions in inches: rank 1 at ``start``, ``scale`` per rank, the line of ranks at ``top``."""

    start: float
    scale: float
    top: float
    bars: int
    lines: int

    @classmethod
    def of(cls, report: RankReport, top: float) -> _Layout:
        """Return the layout with the longest line of ranks that leaves room for the names on both sides."""
        k = len(report.methods)
        better, worse = _sides(report)
        best, worst = report.average[better[0]], report.average[worse[0]]
        left, right = (2 * MARGIN + GAP + max(_width(report.methods[i]) for i in side) for side in (better, worse))
        end = max(float(k), 1 + report.critical_difference)  # of the line or of the ruler
        # Every pair of a thing on the left and one on the right must fit between the margins.
        spans = [
            (best, worst, left + right),
            (best, end, left + MARGIN),
            (1, worst, MARGIN + right),
            (1, end, 2 * MARGIN),
        ]
        scale = min((COLUMN - taken) / (high - low) for low, high, taken in spans if high > low)
        start = max(MARGIN, left - scale * (best - 1))
        return cls(start, scale, top, len(report.groups), len(better))

    def x(self, rank: float) -> float:
        return self.start + self.scale * (rank - 1)

    def bar(self, number: int) -> float:
        return self.top + LINE * (0.55 + 0.6 * number)

    def name(self, line: int) -> float:
        return self.bar(self.bars) + LINE * (line + 0.3)

    @property
    def height(self) -> float:
        return self.name(self.lines) + 1.2 * LINE


def _sides(report: RankReport) -> tuple[list[int], list[int]]:
    """Return the better half of the methods, named on the left, and the others; outermost first."""
    half = (len(report.methods) + 1) // 2
    return report.order[:half], report.order[half:][::-1]


def _width(text: str) -> float:
    return float(TextPath((0, 0), plain(text), size=STYLE["font.size"]).get_extents().width) / 72


def _scale(axes: Axes, report: RankReport, layout: _Layout) -> None:
    """Draw the line of ranks with its ticks, and the ruler."""
    y, k = layout.top, len(report.methods)
    axes.plot([layout.x(1), layout.x(k)], [y, y], **THIN)
    every = next(step for step in (1, 2, 5, 10, k) if step * layout.scale > 1.2 * _width("10") or step == k)
    for rank in range(1, k + 1):
        x, numbered = layout.x(rank), (rank - 1) % every == 0
        axes.plot([x, x], [y, y - LINE * (0.4 if numbered else 0.2)], **THIN)
        if numbered:
            axes.text(x, y - 0.5 * LINE, str(rank), ha="center", va="bottom")
    start, end = layout.x(1), layout.x(1 + report.critical_difference)
    y -= 2.1 * LINE
    axes.plot([start, end], [y, y], **THIN)
    for x in (start, end):
        axes.plot([x, x], [y - 0.2 * LINE, y + 0.2 * LINE], **THIN)
    axes.text(start, y - 0.3 * LINE, f"critical difference {report.critical_difference:.2f}", ha="left", va="bottom")


def _bars(axes: Axes, report: RankReport, layout: _Layout) -> None:
    for number, group in enumerate(report.groups):
        best, worst = layout.x(report.average[group[0]]), layout.x(report.average[group[-1]])
        axes.plot([best - 0.02, worst + 0.02], [layout.bar(number)] * 2, **THICK)


def _names(axes: Axes, report: RankReport, layout: _Layout) -> None:
    """Draw every name, joined to its method's place on the line."""
    for side, align, outwards in zip(_sides(report), ("right", "left"), (-1, 1), strict=True):
        end = layout.x(report.average[side[0]]) + outwards * MARGIN
        for line, i in enumerate(side):
            x, y = layout.x(report.average[i]), layout.name(line)
            axes.plot([x, x, end], [layout.top, y, y], **THIN)
            axes.text(end + outwards * GAP, y, plain(report.methods[i]), ha=align, va="center_baseline")
