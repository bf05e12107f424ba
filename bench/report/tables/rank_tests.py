"""Rank tests of the methods of a table, and their footnotes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from bench.report.ranks import RankReport, rank
from bench.report.tables.table import Table
from bench.types import SilobenchError


def rank_table(table: Table) -> RankReport:
    """Return the rank tests of the methods over the clients: a block is a client, its values are means over runs.

    Each method counts by its row's last checkpoint. Rows that show one client's model of a method with a row of its
    own are left out, and so are clients without a value for every method. Raise :class:`SilobenchError` if a run is
    missing or diverged and the table is not partial, or if fewer than two clients or methods are left.
    """
    owned = {row.of for row in table.spec.rows if row.model is None}
    rows = [row for row in table.spec.rows if row.model is None or row.of not in owned]
    columns = []
    for row in rows:
        own = [
            cell
            for cell in table.cells
            if (cell.method, cell.checkpoint) == (row.method, row.checkpoints[-1]) and cell.client != "all"
        ]
        lost = next((cell.note or cell.state for cell in own if cell.state in ("missing", "diverged")), None)
        if lost and not table.partial:
            raise SilobenchError(f"rank tests need every run, and {row.method} has {lost}; run it again first")
        columns.append([np.nan if cell.mean is None else table.spec.sign * cell.mean for cell in own])
    values = np.array(columns).T
    return rank([row.method for row in rows], values[~np.isnan(values).any(axis=1)])


def rank_notes(table: Table) -> Iterator[str]:
    """Yield the footnotes on rank tests, or on why there are none."""
    try:
        report = rank_table(table)
    except SilobenchError as error:
        yield f"Ranks: none; {error}."
        return
    k, n, order, block = len(report.methods), report.blocks, report.order, table.spec.block
    complete = n == len(table.clients)
    blocks = f"{n} {block}" if complete else f"the {n} of {len(table.clients)} {block} with a value of every method"
    yield (
        f"Average ranks over {blocks} (1 is best; {table.spec.center}s over runs, each method at its last checkpoint): "
        f"{', '.join(f'{report.methods[i]} {report.average[i]:.2f}' for i in order)}."
    )
    yield (
        f"Friedman: chi2({k - 1}) = {report.chi2:.2f}, p = {report.p:.3g}; Iman-Davenport: "
        f"F({k - 1}, {(k - 1) * (n - 1)}) = {report.f:.2f}, p = {report.f_p:.3g}."
    )
    different = [
        f"{report.methods[i]} before {report.methods[j]} (p = {report.pairwise[i, j]:.3g})"
        for i, j in combinations(order, 2)
        if report.average[j] - report.average[i] > report.critical_difference
    ]
    yield (
        f"Nemenyi: two mean ranks differ at the 0.05 level if their difference exceeds "
        f"{report.critical_difference:.2f}: {'; '.join(different) or 'no two methods do'}."
    )
