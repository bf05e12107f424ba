"""Claims about sums, shares and powers of printed numbers, and about lists without common entries."""

from __future__ import annotations

from itertools import combinations

from bench.report.audit.claims import ClaimPart, ClaimResult, Printed, every, kind, near, number_text
from bench.report.audit.count_claims import Item, NumberSource


class RatioItem(Item):
    """``over`` divided by the sum of all ``under``."""

    over: NumberSource
    under: list[NumberSource]


@kind
def total(printed: Printed, rows: str, of: list[str], equals: str) -> ClaimResult:
    """Check that in every row below path ``rows`` the numbers ``of`` add up to the one under ``equals``."""
    parts = []
    for name, row in printed.fact(rows).items():
        added = sum(row[key] for key in of)
        parts.append(ClaimPart(name, number_text(row[equals]), number_text(added), added == row[equals]))
    return every(parts)


@kind
def column_total(printed: Printed, rows: str, of: list[str], equals: str) -> ClaimResult:
    """Check that below path ``rows`` the numbers under each key ``of`` add up to that of the entry ``equals``."""
    entries = dict(printed.fact(rows))
    totals = entries.pop(equals)
    parts = []
    for key in of:
        added = sum(row[key] for row in entries.values())
        parts.append(ClaimPart(key, number_text(totals[key]), number_text(added), added == totals[key]))
    return every(parts)


@kind
def adds_up(printed: Printed, of: list[str], equals: NumberSource) -> ClaimResult:
    """Check that the numbers in the lists at the paths ``of`` add up to ``equals``."""
    added, told = sum(sum(printed.fact(path)) for path in of), printed.number(equals)
    return every([ClaimPart("sum", number_text(told), number_text(added), added == told)])


@kind
def disjoint(printed: Printed, lists: list[str]) -> ClaimResult:
    """Check that no two of the lists at these paths have a common entry."""
    parts = []
    for one, other in combinations(lists, 2):
        shared = [entry for entry in printed.fact(one) if entry in printed.fact(other)]
        what = f"{one.rpartition('.')[2]} and {other.rpartition('.')[2]}"
        parts.append(ClaimPart(what, "nothing shared", ", ".join(map(str, shared)) or "nothing shared", not shared))
    return every(parts)


@kind
def power(printed: Printed, base: float, exponent: float, value: NumberSource) -> ClaimResult:
    """Check that ``base`` to the power of ``exponent`` is the printed number."""
    told, found = printed.number(value), base**exponent
    return every([ClaimPart(f"{base:g}^{exponent:g}", f"{told:g}", f"{found:.5g}", near(found, told))])


@kind
def ratio(printed: Printed, items: list[RatioItem]) -> ClaimResult:
    """Check that the printed shares are those of the printed sizes."""
    parts = []
    for item in items:
        told = printed.number(item.printed)
        share = printed.number(item.over) / sum(printed.number(under) for under in item.under)
        # A share printed as 0.3 is one of 30 %, so its unit is a hundredth.
        parts.append(ClaimPart(item.what, f"{told:.2f}", f"{share:.3f}", near(share, told, 0.005)))
    return every(parts)
