"""Positions, in pixels, of a table's means and intervals on one axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bench.report.statistics import Bounds, within
from bench.report.tables.table import Cell, Table
from bench.report.tables.verdicts import reach

WIDTH, MARGIN = 190, 9  # the margins leave room for half a tick's number


@dataclass(frozen=True)
class IntervalPlot:
    """An axis from ``low`` to ``high``, ``WIDTH`` pixels wide; ``silo`` is the mean that cells are compared with.

    Intervals are cut off at ``bounds``, outside of which no number of the table can lie.
    """

    low: float
    high: float
    silo: float | None
    bounds: Bounds = (-math.inf, math.inf)
    width: int = WIDTH

    @classmethod
    def of(cls, table: Table) -> IntervalPlot | None:
        """Return the axis that holds all intervals of the table, ours and printed; None without any number."""
        ends = [end for cell in table.overall for end in _ends(table, cell)]
        silos = [cell.mean for cell in table.overall if cell.method == table.spec.silo]
        return cls(min(ends), max(ends), silos[-1] if silos else None, table.spec.bounds) if ends else None

    def x(self, value: float) -> float:
        """Return the position of ``value`` from the left."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    def span(self, mean: float, radius: float | None) -> tuple[float, float]:
        """Return the positions of the ends of an interval."""
        low, high = within(mean, radius or 0.0, self.bounds)
        return self.x(low), self.x(high)

    @property
    def ticks(self) -> list[str]:
        """Return two to four round numbers on the axis."""
        if self.high <= self.low:
            return [f"{self.low:.3g}"]
        magnitude = 10.0 ** (math.floor(math.log10(self.high - self.low)) - 1)
        step = next(
            factor * magnitude
            for factor in (1, 2, 5, 10, 20, 50)
            if math.floor(self.high / (factor * magnitude)) - math.ceil(self.low / (factor * magnitude)) < 4
        )
        digits = max(0, -math.floor(math.log10(step)))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [f"{number * step:.{digits}f}" for number in range(first, last + 1)]


def _ends(table: Table, cell: Cell) -> Iterator[float]:
    ours = cell.ci95 if cell.printed is None else reach(table.spec, cell)
    for mean, radius in ((cell.mean, ours), (cell.printed, cell.printed_ci95)):
        if mean is not None:
            yield from within(mean, radius or 0.0, table.spec.bounds)
