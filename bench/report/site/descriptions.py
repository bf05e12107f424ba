"""Texts that describe figures to readers who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.tables.table import Table
from bench.spec import (
    AlphaSection,
    BarsSection,
    ClientsSection,
    CurvesSection,
    FigureSection,
    HeatmapSection,
    LayersSection,
    PartitionSection,
    RanksSection,
    TrajectoriesSection,
)


def describe(figure: FigureSection, tables: Sequence[Table]) -> str:
    """Return a description of a figure; ``tables`` are those that it is made from."""
    match figure:
        case BarsSection():
            return " ".join(_panel(table) for table in tables)
        case AlphaSection():
            return "Score of APFL, mean and interval, against the learning rate of alpha."
        case HeatmapSection():
            return "Heat map of methods by clients. The table of the same methods gives its numbers."
        case ClientsSection():
            return "Bar chart with a bar for every method and client. The table of the same methods gives its numbers."
        case CurvesSection():
            methods = ", ".join(row.method for row in figure.rows)
            return f"Learning curves over rounds, mean and spread over runs, of {methods}."
        case TrajectoriesSection():
            return f"Weights of every client's model at client {figure.client} ({figure.trace}) after each round."
        case LayersSection():
            return f"{', '.join(figure.traces)} of every layer of the model, one line per client."
        case PartitionSection():
            return "Number of training samples of each class at every client."
        case RanksSection():
            return "Critical-difference diagram: mean ranks on a line; a bar joins methods that do not differ."


def _panel(table: Table) -> str:
    silo = [cell.mean for cell in table.overall if cell.method == table.spec.silo and cell.mean is not None]
    bars = [
        (cell.mean, cell.method) for cell in table.overall if cell.method != table.spec.silo and cell.mean is not None
    ]
    if not bars:
        return f"Bar chart of {table.spec.metric} without bars: no run is finished."
    (low, lowest), (high, highest) = min(bars), max(bars)
    digits = table.spec.digits
    text = f"Bar chart of {table.spec.metric} with {len(bars)} bars: highest {highest} at {high:.{digits}f}, "
    text += f"lowest {lowest} at {low:.{digits}f}"
    return f"{text}; dashed line {table.spec.silo} at {silo[-1]:.{digits}f}." if silo else f"{text}."
