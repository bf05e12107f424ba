"""Cells and captions of a table as the report shows them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bench.report.scores import HEADINGS
from bench.report.site.totals import tally
from bench.report.tables.cell_text import Shown, digits, shown
from bench.report.tables.table import Cell, Table


class ShownCell(NamedTuple):
    """A cell, over all clients or of one of them, with its texts."""

    cell: Cell
    checkpoint: str
    shown: Shown


def shown_cells(table: Table) -> list[ShownCell]:
    """Return the cells over all clients."""
    return [_shown(table, cell) for cell in table.overall]


def cells_by_client(table: Table) -> list[tuple[ShownCell, list[ShownCell]]]:
    """Return each cell over all clients with those of the single clients; empty where no client has a number."""
    own: dict[tuple[str, str], list[ShownCell]] = {}
    for cell in table.cells:
        if cell.client != "all":
            own.setdefault((cell.method, cell.checkpoint), []).append(_shown(table, cell))
    return [(line, own[line.cell.method, line.cell.checkpoint]) for line in shown_cells(table)] if own else []


def caption(table: Table, of: Literal["all", "clients"] = "all") -> str:
    """Return a sentence that says what a table's numbers are, or those of its single "clients"."""
    spec = table.spec
    metric = " or ".join(dict.fromkeys(spec.metric_of(row).replace("_", " ") for row in spec.rows))
    what = {
        "mean": metric,
        "fairness": f"variance of {metric} over clients, lower is fairer,",
        "participation": f"share of clients whose {metric} is better than without federation",
        "parameters": "trained parameters of a model",
        "floats_up": "floats uploaded per client and round",
        "floats_down": "floats downloaded per client and round",
    }
    text = f"Shown: {what[spec.value]} on {spec.dataset}"
    text += ", on each client's test samples" * (of == "clients")
    if any(cell.ci95 is not None for cell in table.shown):
        text += f", {spec.center} ± radius of its 95 % interval"
    if of == "clients":
        return f"{text}."
    if any(cell.above_silo or cell.printed_above_silo for cell in table.shown):
        text += f"; * better than {spec.silo}, the intervals do not overlap"
    if tally(table) and spec.one_run:
        text += "; each printed number is of one run and agrees where a further run of ours may fall"
    elif tally(table) and {cell.n_seeds for cell in table.judged if cell.mean is not None} == {1}:
        text += "; ours is one run without an interval, so that only the printed interval counts"
    return f"{text}."


def _shown(table: Table, cell: Cell) -> ShownCell:
    return ShownCell(cell, HEADINGS[cell.checkpoint], shown(cell, digits(table, cell)))
