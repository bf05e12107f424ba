"""Joint tables: columns are the tables of several data sets, with mean ranks over them and rank tests.

Without all columns there are no ranks, unless a partial table is asked for, which says so in its title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.report.environments import mixed
from bench.report.ranks import RankReport, friedman_as_published
from bench.report.tables.comparison_notes import comparison_notes
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Cell, Row, Table, TableSpec
from bench.spec import JointSection, RowSection
from bench.types import SilobenchError, SpecError, nearest

BLOCK = "data sets"


def join(
    section: JointSection,
    columns: Mapping[str, Table | str],
    printed_ranks: Mapping[str, float] | None = None,
    *,
    partial: bool = False,
) -> Table:
    """Return the joint table of ``columns``: by id its tables, or the reason why one is missing.

    Cells are those of the tables, verdicts included. Raise :class:`SpecError` for tables of different kinds, and for a
    row that none of them has.
    """
    made = [table for column in section.columns if isinstance(table := columns[column.table], Table)]
    spec = _spec(section, made)
    cells: list[Cell] = []
    for row in spec.rows:
        own = [_cell(row, columns[column.table], str(number)) for number, column in enumerate(section.columns)]
        cells += [Cell(row.method, row.checkpoints[0]), *own]
    labels = tuple(column.label for column in section.columns)
    table = Table(
        spec, tuple(cells), labels, any(each.synthetic for each in made), partial=partial and _holes(cells),
        environments=sum((each.environments for each in made), Counter()),
    )  # fmt: skip
    table = replace(table, cells=tuple(_with_ranks(table, printed_ranks or {})))
    return replace(table, footnotes=(*_footnotes(section, columns, table), *section.notes))


def _spec(section: JointSection, made: list[Table]) -> TableSpec:
    known = {row.method: row for table in made for row in table.spec.rows}
    for method in section.rows:
        if made and method not in known:
            raise SpecError(f"joint table {section.id}: no table has the row {method!r}: {nearest(method, known)}")
    kinds = {(table.spec.sign, table.spec.value, table.spec.profile) for table in made}
    if len(kinds) > 1:
        raise SpecError(f"joint table {section.id}: its tables show values of different kinds; join tables of one kind")
    last = {method: row.checkpoints[-1] for method, row in known.items()}
    rows = [
        Row(method=method, of=method, checkpoints=[section.checkpoint or last.get(method, "local")])
        for method in section.rows
    ]
    some = made[0].spec if made else TableSpec(section.id, "", "", "score", rows)
    suffix = "" if some.profile == "paper" else f"-{some.profile}"
    return some.model_copy(
        update={
            "id": f"{section.id}{suffix}",
            "title": section.title,
            "dataset": ", ".join(dict.fromkeys(table.spec.dataset for table in made)),
            "metric": ", ".join(dict.fromkeys(table.spec.metric for table in made)) or "score",
            "rows": rows,
            "silo": None,
            "baselines": [],
            "notes": [],
            "ranks": True,
            "digits": section.digits,
            "columns": "clients",
            "block": BLOCK,
            "summary": "rank",
            "against": [],
            "searched": (),
        }
    )


def _cell(row: RowSection, table: Table | str, number: str) -> Cell:
    checkpoint = row.checkpoints[0]
    if isinstance(table, str):
        return Cell(row.method, checkpoint, number, state="missing", note="missing", verdict="missing")
    found = table.cell(row.method, checkpoint)
    if found is None:
        return Cell(row.method, checkpoint, number, state="missing", note="no such row", verdict="missing")
    return replace(found, client=number)


def _holes(cells: list[Cell]) -> bool:
    return any(cell.state in ("missing", "diverged") for cell in cells)


def _with_ranks(table: Table, printed: Mapping[str, float]) -> Iterator[Cell]:
    """Yield the cells; those over all data sets get their mean rank, or the note "not ranked"."""
    try:
        report: RankReport | None = rank_table(table)
    except SilobenchError:
        report = None
    mean = dict(zip(report.methods, report.average, strict=True)) if report else {}
    for cell in table.cells:
        if cell.client != "all":
            yield cell
        elif cell.method in mean:
            blocks = report.blocks if report else 0
            yield replace(cell, mean=float(mean[cell.method]), n_seeds=blocks, printed=printed.get(cell.method))
        else:
            yield replace(cell, state="missing", note="not ranked", printed=printed.get(cell.method))


def _footnotes(section: JointSection, columns: Mapping[str, Table | str], table: Table) -> Iterator[str]:
    shown = []
    for column in section.columns:
        found = columns[column.table]
        shown.append(f"{column.label} is {column.table}" + (f" (missing: {found})" if isinstance(found, str) else ""))
    yield f"Columns: {'; '.join(shown)}. The footnotes of these tables say how their numbers were computed."
    yield from mixed(table.environments)
    yield from comparison_notes(table)
    if section.as_published:
        yield from _as_published(table)


def _as_published(table: Table) -> Iterator[str]:
    """Yield the footnote on PLayer-FL's Friedman test over the same numbers."""
    by_method = [
        [cell.mean for cell in table.cells if cell.method == row.method and cell.client != "all"]
        for row in table.spec.rows
    ]
    whole = [column for column in zip(*by_method, strict=True) if None not in column]
    if len(whole) < len(table.clients) and not table.partial:
        return
    try:
        chi2, p = friedman_as_published([row.method for row in table.spec.rows], [
            [table.spec.sign * value for value in column if value is not None] for column in whole
        ])  # fmt: skip
    except SilobenchError:
        return
    yield (
        f"As published (Friedman's test with data sets in the place of methods; it tests whether data sets differ): "
        f"chi2({len(whole) - 1}) = {chi2:.2f}, p = {p:.3g}."
    )
