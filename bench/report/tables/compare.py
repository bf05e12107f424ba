"""Agreement of a table with the printed numbers: cells, asterisks, and orderings of methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from bench.report.tables.agreement import (
    Conclusion,
    Held,
    RankCorrelation,
    conclusions,
    held,
    rank_correlation,
    within,
)
from bench.report.tables.table import Cell, Table
from bench.report.tables.verdicts import reach
from bench.spec import PAPER


@dataclass(frozen=True)
class Agreement:
    """Agreement of a table with print, as counted by :mod:`bench.report.tables.agreement`.

    ``cells`` counts the cells with a printed number whose client has test samples (``unscored`` counts the others),
    ``same_side`` the verdicts "same side", ``asterisks`` the printed asterisks that ours have too, ``orderings`` the
    printed orderings of two of ``methods`` that ours have too; ``broken`` names the others.
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
    """Return the agreement of a table with print; None if nothing is printed or the budget is not the paper's.

    A method counts by the better of its printed checkpoints (as FENDA-FL ranks strategies), and only if we have a
    number for all of them. A printed tie is no ordering, and an ordering does not hold if ours are tied. If clients
    have columns, methods are ordered in each column.
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
    """Yield the printed conclusions that ours do not support, with their clients; ``drawn`` holds (ours, printed)."""
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
    """Return our and the printed numbers of one column by method, higher is better; None for counts."""
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
