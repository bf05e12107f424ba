"""Ours beside the printed numbers, and the methods beside each other: verdicts, agreement, ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from bench.report import statistics
from bench.report.ranks import RankReport, rank
from bench.report.tables.agreement import (
    Conclusion,
    Held,
    RankCorrelation,
    agrees,
    beats,
    conclusions,
    held,
    rank_correlation,
    within,
)
from bench.report.tables.table import Cell, Table, TableSpec
from bench.spec import PAPER
from bench.types import SilobenchError

LISTED = 9  # broken orderings that are named, where there are no more


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
    if agrees(ours, radius, printed, printed_radius):
        return "agrees"
    if silo is None or printed_silo is None:
        return "off"
    return "same side" if np.sign(ours - silo) == np.sign(printed - printed_silo) else "off"


def judge(spec: TableSpec, cells: Sequence[Cell]) -> list[Cell]:
    """``cells`` with verdicts and asterisks, each held against the last checkpoint of the silo row, same client.

    Only a table of the paper's budget has verdicts. Single clients have asterisks where they have columns of their own.
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
    """What a printed number may be off by on our side: the cell's radius, or that of one further run."""
    return statistics.further_run(cell.ci95, cell.n_seeds) if spec.one_run else cell.ci95


@dataclass(frozen=True)
class Agreement:
    """How far a table holds, as :mod:`bench.report.tables.agreement` counts.

    ``cells`` are those with a printed number whose client has test samples (``unscored`` counts the others),
    ``same_side`` the verdicts between agreeing and off, ``asterisks`` are the printed ones that ours have too,
    ``orderings`` the conclusions about two of ``methods``; ``broken`` are those that ours do not draw, in words.
    """

    cells: Held
    unscored: int
    same_side: int
    asterisks: Held
    methods: int
    orderings: Held
    broken: tuple[str, ...]
    correlation: RankCorrelation | None


def agreement(table: Table) -> Agreement | None:
    """Ours against the printed numbers; None where nothing is printed, or the budget is not the paper's.

    A method counts by the better of its printed checkpoints (as FENDA-FL ranks strategies), and only when all of
    them have a number of ours. A printed tie is no ordering, and a tie of ours does not hold one. Where clients have
    columns, methods are ordered in each of them.
    """
    printed = [cell for cell in table.judged if cell.printed is not None]
    cells = [cell for cell in printed if cell.state != "not scored"]
    if not cells or table.spec.profile != PAPER:
        return None
    orders = {
        client: order
        for client in dict.fromkeys(cell.client for cell in cells)
        if (order := _order(table, [cell for cell in cells if cell.client == client]))
    }
    drawn = {client: (conclusions(ours), conclusions(printed)) for client, (ours, printed) in orders.items()}
    orderings = [held(printed, ours) for ours, printed in drawn.values()]
    starred = [cell for cell in cells if cell.printed_above_silo]
    return Agreement(
        cells=within(
            (cell.mean, reach(table.spec, cell), cell.printed, cell.printed_ci95)
            for cell in cells
            if cell.printed is not None
        ),
        unscored=len(printed) - len(cells),
        same_side=[cell.verdict for cell in cells].count("same side"),
        asterisks=Held(sum(cell.above_silo for cell in starred), len(starred)),
        methods=max((len(printed) for _, printed in orders.values()), default=0),
        orderings=Held(sum(each.hold for each in orderings), sum(each.of for each in orderings)),
        broken=tuple(_broken(table, drawn)),
        correlation=rank_correlation(*next(iter(orders.values()))) if len(orders) == 1 else None,
    )


def _broken(table: Table, drawn: Mapping[str, tuple[Set[Conclusion], Set[Conclusion]]]) -> Iterator[str]:
    """What is printed and not found in ours, with the clients where; ``drawn`` are conclusions, ours and printed."""
    names = {str(number): name for number, name in enumerate(table.clients)}
    where: dict[Conclusion, list[str]] = {}
    for client, (ours, printed) in drawn.items():
        for pair in printed - ours:
            where.setdefault(pair, []).extend([names[client]] if client in names else [])
    order = [row.method for row in table.spec.rows]
    for better, worse in sorted(where, key=lambda pair: [order.index(method) for method in pair]):
        clients = where[better, worse]
        yield f"{better} over {worse}" + (f" ({', '.join(clients)})" if clients else "")


def _order(table: Table, cells: Sequence[Cell]) -> tuple[dict[str, float], dict[str, float]] | None:
    """Ours and the printed numbers of one column by method, higher is better; None where no order is one."""
    if not table.spec.better_or_worse:
        return None
    ours, printed = {}, {}
    for row in table.spec.rows:
        own = [cell for cell in cells if cell.method == row.method]
        means = [cell.mean for cell in own if cell.mean is not None]
        if own and len(means) == len(own):
            ours[row.method] = max(table.spec.sign * mean for mean in means)
            printed[row.method] = max(table.spec.sign * cell.printed for cell in own if cell.printed is not None)
    return ours, printed


def ranks(table: Table) -> RankReport:
    """Rank tests of the methods over the clients: a block is a client, its values are means over runs.

    Each method counts by its row's last checkpoint; rows showing one client's model of a method that has a row of
    its own are left out, and so are clients without a value for every method. Raises :class:`SilobenchError` when
    a run is missing or diverged and the table is not partial, or fewer than two clients or methods are left.
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


def remarks(table: Table) -> Iterable[str]:
    """The lines of the foot on verdicts, asterisks, agreement and ranks."""
    spec = table.spec
    silo = spec.silo if spec.better_or_worse and any(row.method == spec.silo for row in spec.rows) else None
    found = agreement(table)
    if found:
        whose = f"their own {silo} mean" if silo else "the mean that their own table names"
        shown = silo or any(cell.verdict == "same side" for cell in table.judged)
        side = f'else "same side" when both lie on the same side of {whose}, ' if shown else ""
        own = f" (so is a {silo} that does not agree)" if silo else ""
        rule = "the sum of both radii (an absent radius is 0)"
        if spec.one_run:
            rule = "the radius of the 95 % interval for one further run of ours (printed numbers are of one run each)"
        yield f'Verdict: "agrees" when |ours - printed| is at most {rule}, {side}else "off"{own}.'
        yield _agreed(found)
    if spec.profile != PAPER:
        yield (
            f"Profile {spec.profile}: less than the study asks for (seeds, rounds, settings or data). Printed numbers "
            f"are of another budget and stand here for orientation; nothing is said to agree with them."
        )
    if silo and any(cell.ci95 is not None for cell in table.shown):
        whose = " (ours beside our silo, printed beside the printed one)" if found else ""
        better = "mean - radius > {0} mean + {0} radius" if spec.sign > 0 else "mean + radius < {0} mean - {0} radius"
        yield f"*: {better.format(silo)}{whose}."
    if spec.ranks:
        yield from ranked(table)


def _agreed(found: Agreement) -> str:
    agree = f"{found.cells.hold} of {found.cells.of} cells agree"
    if found.unscored:
        agree += f" ({found.unscored} more have no test samples)"
    if found.same_side or found.orderings.of:
        agree += f", {found.same_side} more are on the same side"
    parts = [agree]
    if found.asterisks.of:
        parts.append(f"{found.asterisks.hold} of {found.asterisks.of} printed asterisks hold")
    if found.orderings.of:
        order = f"{found.orderings.hold} of {found.orderings.of} printed orderings of {found.methods} methods hold"
        if 0 < len(found.broken) <= LISTED:
            order += f" (not {', '.join(found.broken)})"
        if found.correlation:
            order += f", rank correlation {found.correlation.spearman:.2f} (Spearman), "
            order += f"{found.correlation.kendall:.2f} (Kendall)"
        parts.append(f"{order} (a method counts by the better of its checkpoints)")
    return f"Agreement: {'; '.join(parts)}."


def ranked(table: Table) -> Iterable[str]:
    """The lines of the foot on rank tests, or on why there are none."""
    try:
        report = ranks(table)
    except SilobenchError as error:
        yield f"Ranks: none; {error}."
        return
    k, n, order, block = len(report.methods), report.blocks, report.order, table.spec.block
    whole = n == len(table.clients)
    blocks = f"{n} {block}" if whole else f"the {n} of {len(table.clients)} {block} with a value of every method"
    value = f"a block is one of these {block}" if block != "clients" else "a block is a client"
    yield (
        f"Average ranks over {blocks} (1 is best; {value}, its values are {table.spec.center}s over runs, the last "
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
