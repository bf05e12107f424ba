"""Verdicts of cells against the printed numbers, and asterisks of cells against Silo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.report import statistics
from bench.report.tables.agreement import agrees, beats
from bench.report.tables.table import Cell, TableSpec
from bench.spec import PAPER


def verdict(
    ours: float,
    radius: float | None,
    printed: float,
    printed_radius: float | None,
    silo: float | None = None,
    printed_silo: float | None = None,
) -> str:
    """Return "agrees", "same side" or "off" for our mean and the printed one with the radii of their intervals.

    Both means are on the same side if both are above or both are below their own Silo mean. Without Silo means the
    result is "agrees" or "off".
    """
    if agrees(ours, radius, printed, printed_radius):
        return "agrees"
    if silo is None or printed_silo is None:
        return "off"
    return "same side" if np.sign(ours - silo) == np.sign(printed - printed_silo) else "off"


def judge(spec: TableSpec, cells: Sequence[Cell]) -> list[Cell]:
    """Return ``cells`` with verdicts and asterisks; each is compared with the Silo row's last checkpoint, same client.

    Only tables with the paper's budget have verdicts. Single clients have asterisks if they have columns of their own.
    """
    silos = {cell.client: cell for cell in cells if cell.method == spec.silo and spec.better_or_worse}
    starred = [client for client in silos if client == "all" or spec.columns == "clients"]
    return [
        _starred(spec, _judged(spec, cell, silos.get(cell.client)), silos[cell.client])
        if cell.client in starred and cell.method not in (spec.silo, *spec.baselines)
        else _judged(spec, cell, silos.get(cell.client))
        for cell in cells
    ]


def _judged(spec: TableSpec, cell: Cell, silo: Cell | None) -> Cell:
    if cell.state:
        return replace(cell, verdict=cell.state)
    if cell.mean is None or cell.printed is None or spec.profile != PAPER or cell.method not in spec.compared:
        return cell
    means = (silo.mean, silo.printed) if silo and cell.method != spec.silo else (None, None)
    return replace(cell, verdict=verdict(cell.mean, reach(spec, cell), cell.printed, cell.printed_ci95, *means))


def _starred(spec: TableSpec, cell: Cell, silo: Cell) -> Cell:
    def above(mean: float | None, radius: float | None, other: float | None, other_radius: float | None) -> bool:
        means = (None if each is None else spec.sign * each for each in (mean, other))
        return beats(next(means), radius, next(means), other_radius)

    return replace(
        cell,
        above_silo=above(cell.mean, cell.ci95, silo.mean, silo.ci95),
        printed_above_silo=above(cell.printed, cell.printed_ci95, silo.printed, silo.printed_ci95),
    )


def reach(spec: TableSpec, cell: Cell) -> float | None:
    """Return our part of the allowed difference: the radius of the cell's interval, or that of one further run."""
    return statistics.further_run(cell.ci95, cell.n_seeds) if spec.one_run else cell.ci95
