"""Footnotes on verdicts, agreement, profiles, asterisks and rank tests."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.tables.compare import Agreement, agreement
from bench.report.tables.rank_tests import rank_notes
from bench.report.tables.table import Table
from bench.spec import PAPER

LISTED = 9  # broken orderings that are named, if there are no more


def comparison_notes(table: Table) -> Iterator[str]:
    """Yield the footnotes on the comparison with print, with Silo, and of the methods with each other."""
    spec = table.spec
    silo = spec.silo if spec.better_or_worse and any(row.method == spec.silo for row in spec.rows) else None
    found = agreement(table)
    if found:
        yield _rule(table, silo)
        yield _agreed(found)
    if spec.profile != PAPER:
        yield (
            f"Profile {spec.profile}: fewer seeds, rounds, settings or data than the study asks for. Printed numbers "
            f"belong to another budget; they are shown for orientation and not compared."
        )
    if silo and any(cell.ci95 is not None for cell in table.shown):
        printed = f" Printed numbers are compared with the printed {silo}." if found else ""
        yield f"* Better than {silo}: the confidence intervals do not overlap.{printed}"
    if spec.ranks:
        yield from rank_notes(table)


def _rule(table: Table, silo: str | None) -> str:
    agrees = "the difference is within the two confidence intervals combined (a missing interval counts as zero)"
    if table.spec.one_run:
        agrees = (
            "the printed number, which is of a single run, is within the 95 % prediction interval for one further run"
        )
    if silo:
        return (
            f"Verdict: agrees - {agrees}; same side - it is not, but both values fall on the same side of {silo}; "
            f"off - neither."
        )
    if any(cell.verdict == "same side" for cell in table.judged):
        return f"Verdict: agrees - {agrees}; same side or off - see the tables of the columns."
    return f"Verdict: agrees - {agrees}; off - it is not."


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
        parts.append(f"{order}; each method counts by its better checkpoint")
    return f"Agreement: {'; '.join(parts)}."
