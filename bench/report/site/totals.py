"""Counts of verdicts, for one table and for all tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.report.site.content import Exhibit
from bench.report.tables.agreement import Held
from bench.report.tables.compare import Agreement, agreement
from bench.report.tables.table import Table

# Best first; a column of verdicts is sorted in this order.
VERDICTS = ("agrees", "same side", "off", "undefined", "not scored", "diverged", "missing", "")
WITH_NUMBER = ("agrees", "same side", "off")


@dataclass(frozen=True)
class _Counted:
    """The number of cells with a printed number by verdict."""

    counts: Mapping[str, int]

    @property
    def cells(self) -> int:
        """The number of cells with a printed number."""
        return sum(self.counts.values())

    @property
    def numberless(self) -> int:
        """The number of cells without a number of ours."""
        return without_number(self.counts)


@dataclass(frozen=True)
class Tally(_Counted):
    """The verdicts of one table, and the conclusions that hold."""

    held: Agreement


@dataclass(frozen=True)
class Totals(_Counted):
    """Verdicts of all compared tables of a page by name, with the orderings and asterisks that hold.

    ``tables`` of the page's exhibits are counted: no joint table, and none that repeats the printed numbers of another.
    """

    orderings: Held
    asterisks: Held
    tables: int


def tally(table: Table) -> Tally | None:
    """Return the verdicts of one table; None where nothing printed is compared."""
    held = agreement(table)
    if held is None:
        return None
    found = [cell.verdict for cell in table.judged if cell.printed is not None]
    counts = {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}
    return Tally(counts, held)


def totals(exhibits: Iterable[Exhibit]) -> Totals | None:
    """Return the verdicts of all tables that are compared, each printed number once; None if there is none.

    Of several tables beside the same printed numbers, the first counts.
    """
    found = [tally(exhibit.table) for exhibit in counted(exhibits)]
    tallies = [each for each in found if each is not None]
    if not tallies:
        return None
    sums = {verdict: sum(each.counts.get(verdict, 0) for each in tallies) for verdict in VERDICTS}
    return Totals(
        {verdict: count for verdict, count in sums.items() if count},
        _added(each.held.orderings for each in tallies),
        _added(each.held.asterisks for each in tallies),
        len(tallies),
    )


def counted(exhibits: Iterable[Exhibit]) -> list[Exhibit]:
    """Return the exhibits that totals count: compared, not joint, and the first beside its printed numbers."""
    seen: set[str] = set()
    kept = []
    for exhibit in exhibits:
        if exhibit.joint or exhibit.printed in seen or tally(exhibit.table) is None:
            continue
        seen |= {exhibit.printed} if exhibit.printed else set()
        kept.append(exhibit)
    return kept


def without_number(counts: Mapping[str, int]) -> int:
    """Return how many of the verdicts say that there is no number of ours."""
    return sum(count for verdict, count in counts.items() if verdict not in WITH_NUMBER)


def _added(counts: Iterable[Held]) -> Held:
    each = list(counts)
    return Held(sum(one.hold for one in each), sum(one.of for one in each))
