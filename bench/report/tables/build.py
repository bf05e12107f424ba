"""Tables built from records: one row per method, one cell per checkpoint rule, with the printed number beside ours.

By default a cell is the mean over clients in each run, then the mean over runs, as FENDA-FL averages its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bench.report.environments import environments, mixed
from bench.report.scores import Record
from bench.report.tables import footnotes, values
from bench.report.tables.comparison_notes import comparison_notes
from bench.report.tables.table import Cell, Table, TableSpec
from bench.report.tables.verdicts import judge
from bench.spec import Number
from bench.types import Chosen, SpecError, nearest


def build(spec: TableSpec, chosen: Mapping[str, Chosen], printed: Iterable[Number] = ()) -> Table:
    """Return the table of ``chosen`` settings by method key, beside ``printed`` numbers unless ours are synthetic.

    Raise :class:`SpecError` for a row without a chosen setting, a score that the records do not hold, records of
    different clients, and a printed number without a cell.
    """
    for row in spec.rows:
        if row.of not in chosen:
            hint = nearest(row.of, chosen)
            raise SpecError(f"table {spec.id}: row {row.method}: no setting was chosen for {row.of!r}: {hint}")
    used = {row.of: chosen[row.of] for row in spec.rows}
    records = [record for choice in used.values() for record in choice.records if record is not None]
    clients, unscored = _clients(spec, records)
    cells = [
        cell
        for row in spec.rows
        for checkpoint in row.checkpoints
        for cell in values.cells(spec, row, Cell(row.method, checkpoint), chosen, len(clients), unscored)
    ]
    synthetic = any(record["synthetic"] for record in records)
    cells = judge(spec, _beside(spec, cells, clients, () if synthetic else printed))
    table = Table(spec, tuple(cells), clients, synthetic, environments=environments(records))
    computed = (*footnotes.computed(spec, used, clients, unscored), *mixed(table.environments))
    return replace(table, footnotes=(*computed, *comparison_notes(table), *spec.notes))


def _clients(spec: TableSpec, records: Sequence[Record]) -> tuple[tuple[str, ...], frozenset[int]]:
    """Return the names of the clients, and the numbers of those without test samples."""
    seen = {(tuple(record["clients"]), tuple(record["test_sizes"])) for record in records}
    if len({names for names, _ in seen}) > 1 or len({tuple(map(bool, sizes)) for _, sizes in seen}) > 1:
        one, other = sorted(seen, key=str)[:2]
        raise SpecError(f"table {spec.id}: records of different clients or test sizes: {one} and {other}")
    names, sizes = next(iter(seen), ((), ()))
    return names, frozenset(number for number, size in enumerate(sizes) if not size)


def _beside(spec: TableSpec, cells: Sequence[Cell], clients: Sequence[str], printed: Iterable[Number]) -> list[Cell]:
    """Return ``cells`` with their printed numbers."""
    numbered = {"all": "all"} | {str(number): str(number) for number in range(len(clients))}
    numbered |= {name: str(number) for number, name in enumerate(clients)}
    known = {(cell.method, cell.checkpoint) for cell in cells}
    numbers: dict[tuple[str, str, str], Number] = {}
    for entry in printed:
        place = f"{entry.method} {entry.checkpoint}"
        if (entry.method, entry.checkpoint) not in known:
            hint = nearest(place, (" ".join(each) for each in known))
            raise SpecError(f"table {spec.id}: printed number for {place!r} has no cell: {hint}")
        if entry.client not in numbered:
            if not clients:  # without a record the clients are unknown
                continue
            raise SpecError(
                f"table {spec.id}: printed number for {place!r} on client {entry.client!r}: "
                f"{nearest(entry.client, numbered)}"
            )
        key = (entry.method, entry.checkpoint, numbered[entry.client])
        if key in numbers:
            raise SpecError(f"table {spec.id}: {place!r} has two printed numbers; keep one")
        numbers[key] = entry
    return [
        replace(cell, printed=number.value, printed_ci95=number.ci95)
        if (number := numbers.get((cell.method, cell.checkpoint, cell.client)))
        else cell
        for cell in cells
    ]
