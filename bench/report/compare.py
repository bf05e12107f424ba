"""Ours beside the printed numbers, and the methods beside each other: verdicts, agreement, ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import scipy

from bench.report import stats
from bench.types import SilobenchError

if TYPE_CHECKING:
    from bench.report.tables import Cell, Table, TableSpec

# Sums of decimals such as 0.72 + 0.03 miss their value in the last bit; a cell on the border agrees.
BORDER = 1e-12


def verdict(
    ours: float,
    radius: float | None,
    printed: float,
    printed_radius: float | None,
    silo: float | None = None,
    printed_silo: float | None = None,
) -> str:
    """Whether ours "agrees" with the printed mean, is on the "same side" of silo or "off".

    The rule stands in the foot of every table (:func:`remarks`). Without silo means a cell agrees or is off.
    """
    if abs(ours - printed) <= (radius or 0.0) + (printed_radius or 0.0) + BORDER:
        return "agrees"
    if silo is None or printed_silo is None:
        return "off"
    return "same side" if np.sign(ours - silo) == np.sign(printed - printed_silo) else "off"


def above_silo(mean: float | None, radius: float | None, silo: float | None, silo_radius: float | None) -> bool:
    """The asterisk of FENDA-FL's Tables 2-4: mean - radius > silo mean + silo radius; never without intervals."""
    if mean is None or radius is None or silo is None or silo_radius is None:
        return False
    return mean - radius > silo + silo_radius


def judge(spec: TableSpec, cells: Sequence[Cell]) -> list[Cell]:
    """``cells`` with verdicts and asterisks. The silo mean is that of the silo row's last checkpoint."""
    silos = [cell for cell in cells if cell.method == spec.silo and cell.client == "all"]
    silo = silos[-1] if silos else None
    return [_judged(spec, cell, silo) for cell in cells]


def _judged(spec: TableSpec, cell: Cell, silo: Cell | None) -> Cell:
    if cell.state:
        cell = replace(cell, verdict=cell.state)
    elif cell.mean is not None and cell.printed is not None:
        other = silo if cell.method != spec.silo else None
        means = (other.mean, other.printed) if other else (None, None)
        radius = stats.further_run(cell.ci95, cell.n_seeds) if spec.one_run else cell.ci95
        cell = replace(cell, verdict=verdict(cell.mean, radius, cell.printed, cell.printed_ci95, *means))
    if silo is None or cell.client != "all" or cell.method in (spec.silo, *spec.baselines):
        return cell
    return replace(
        cell,
        above_silo=above_silo(cell.mean, cell.ci95, silo.mean, silo.ci95),
        printed_above_silo=above_silo(cell.printed, cell.printed_ci95, silo.printed, silo.printed_ci95),
    )


@dataclass(frozen=True)
class Agreement:
    """How far a table holds: the verdicts of its ``cells`` with a printed number, and the order of its ``methods``.

    ``spearman`` is None for fewer than three methods or when all are alike; ``hold`` counts the printed orderings of
    two methods, of which there are ``pairs``, that ours show too.
    """

    cells: int
    agree: int
    same_side: int
    methods: int
    spearman: float | None
    pairs: int
    hold: int


def agreement(table: Table) -> Agreement | None:
    """Ours against the printed numbers; None where nothing is printed.

    A method counts by the better of its printed checkpoints (as FENDA-FL ranks strategies), and only when all of
    them have a number of ours. A printed tie is no ordering, and a tie of ours does not hold one.
    """
    cells = [cell for cell in table.overall if cell.printed is not None]
    if not cells:
        return None
    ours, printed = [], []
    for row in table.spec.rows:
        own = [cell for cell in cells if cell.method == row.method]
        means = [cell.mean for cell in own if cell.mean is not None]
        if own and len(means) == len(own):
            ours.append(max(means))
            printed.append(max(cell.printed for cell in own if cell.printed is not None))
    ordered = [(i, j) for i, j in combinations(range(len(printed)), 2) if printed[i] != printed[j]]
    ranked = len(printed) > 2 and len(set(ours)) > 1 and len(set(printed)) > 1
    verdicts = [cell.verdict for cell in cells]
    return Agreement(
        cells=len(cells),
        agree=verdicts.count("agrees"),
        same_side=verdicts.count("same side"),
        methods=len(printed),
        spearman=float(scipy.stats.spearmanr(ours, printed).statistic) if ranked else None,
        pairs=len(ordered),
        hold=sum((ours[i] - ours[j]) * (printed[i] - printed[j]) > 0 for i, j in ordered),
    )


def ranks(table: Table) -> stats.RankReport:
    """Rank tests of the methods over the clients: a block is a client, its values are means over runs.

    Each method counts by its row's last checkpoint; rows showing one client's model of a method that has a row of
    its own are left out, and so are clients without a value for every method. Raises :class:`SilobenchError` when
    a run is missing or diverged, or fewer than two clients or methods are left.
    """
    owned = {row.of for row in table.spec.rows if row.model is None}
    rows = [row for row in table.spec.rows if row.model is None or row.of not in owned]
    columns = []
    for row in rows:
        own = [cell for cell in table.cells if (cell.method, cell.checkpoint) == (row.method, row.checkpoints[-1])]
        if own[0].state in ("missing", "diverged"):
            raise SilobenchError(f"rank tests need every run, and {row.method} has {own[0].note}; run it again first")
        columns.append([np.nan if cell.mean is None else cell.mean for cell in own[1:]])
    values = np.array(columns).T
    return stats.rank([row.method for row in rows], values[~np.isnan(values).any(axis=1)])


def remarks(table: Table) -> Iterable[str]:
    """The lines of the foot on verdicts, asterisks, agreement and ranks."""
    silo = table.spec.silo if any(row.method == table.spec.silo for row in table.spec.rows) else None
    found = agreement(table)
    if found:
        side = f'else "same side" when both lie on the same side of their own {silo} mean, ' if silo else ""
        own = f" (so is a {silo} that does not agree)" if silo else ""
        rule = "the sum of both radii (an absent radius is 0)"
        if table.spec.one_run:
            rule = "the radius of the 95 % interval for one further run of ours (printed numbers are of one run each)"
        yield f'Verdict: "agrees" when |ours - printed| is at most {rule}, {side}else "off"{own}.'
        yield _agreed(found)
    if silo:
        whose = " (ours beside our silo, printed beside the printed one)" if found else ""
        yield f"*: mean - radius > {silo} mean + {silo} radius{whose}."
    if table.spec.ranks:
        yield from _ranked(table)


def _agreed(found: Agreement) -> str:
    text = f"Agreement: {found.agree} of {found.cells} cells agree, {found.same_side} more are on the same side"
    if found.pairs:
        text += f"; {found.hold} of {found.pairs} printed orderings of {found.methods} methods hold"
    if found.spearman is not None:
        text += f", Spearman rank correlation {found.spearman:.2f}"
    return f"{text} (a method counts by the better of its checkpoints)."


def _ranked(table: Table) -> Iterable[str]:
    try:
        report = ranks(table)
    except SilobenchError as error:
        yield f"Ranks: none; {error}."
        return
    k, n = len(report.methods), report.blocks
    order = np.argsort(report.average, kind="stable")
    yield (
        f"Average ranks over {n} clients (1 is best; a block is a client, its values are means over runs, the last "
        f"checkpoint of each row counts): {', '.join(f'{report.methods[i]} {report.average[i]:.2f}' for i in order)}."
    )
    yield (
        f"Friedman: chi2({k - 1}) = {report.chi2:.2f}, p = {report.p:.3g}; Iman-Davenport: "
        f"F({k - 1}, {(k - 1) * (n - 1)}) = {report.f:.2f}, p = {report.f_p:.3g}."
    )
    apart = [
        f"{report.methods[i]} before {report.methods[j]} (p = {report.pairwise[i, j]:.3g})"
        for i, j in combinations(order, 2)
        if report.average[j] - report.average[i] > report.critical_difference
    ]
    yield (
        f"Nemenyi: mean ranks differ at 0.05 when more than {report.critical_difference:.2f} apart: "
        f"{'; '.join(apart) or 'no two methods do'}."
    )
