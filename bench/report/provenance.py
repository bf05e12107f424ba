"""The runs behind a table, down to their records: what a method's runs have in common, and what is each one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.report.scores import Record
from bench.report.tables.table import Table
from bench.types import Chosen

VARIES = "(differs by run)"


class RunProvenance(NamedTuple):
    """One run; all but its seed empty where the record is missing. ``sha256`` is the seal of the record."""

    seed: int
    run: str
    status: str
    fingerprint: str
    versions: str
    path: str
    sha256: str


class MethodProvenance(NamedTuple):
    """The runs of one method: the table's ``rows`` made from it, how its setting was chosen, the ``spec`` as JSON."""

    rows: tuple[str, ...]
    rule: str
    searched: int
    spec: str
    runs: tuple[RunProvenance, ...]


def behind(table: Table) -> dict[str, list[str]]:
    """The methods whose runs a table is made from, by key: the rows made of each; none where it is only compared."""
    rows: dict[str, list[str]] = {}
    for row in table.spec.rows:
        rows.setdefault(row.of, []).append(row.method)
    for method in table.spec.against:
        rows.setdefault(method, [])
    return rows


def sources(table: Table, chosen: Mapping[str, Chosen]) -> list[MethodProvenance]:
    """What of ``chosen`` stands behind the table's rows, in their order; rows of the same runs share a source."""
    return [_source(tuple(rows) or (of,), chosen[of]) for of, rows in behind(table).items() if of in chosen]


def versions(records: Iterable[Record]) -> list[str]:
    """What the records were made with, each combination once, in alphabetical order."""
    return sorted({_versions(record) for record in records})


def _source(rows: tuple[str, ...], choice: Chosen) -> MethodProvenance:
    specs = [record["spec"] for record in choice.records if record is not None]
    runs = tuple(_run(seed, record) for seed, record in zip(choice.seeds, choice.records, strict=True))
    spec = json.dumps(_common(specs), indent=2, ensure_ascii=False) if specs else ""
    return MethodProvenance(rows, choice.rule, choice.settings, spec, runs)


def _run(seed: int, record: Record | None) -> RunProvenance:
    if record is None:
        return RunProvenance(seed, "", "missing", "", "", "", "")
    fingerprint = record["spec"]["data"]["fingerprint"]
    seal = record.get("sha256", "")
    return RunProvenance(seed, record["run"], record["status"], fingerprint, _versions(record), record["path"], seal)


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(record["versions"].items()))


def _common(values: Sequence[Any]) -> Any:
    """What all ``values`` agree on, key by key where they are mappings."""
    first = values[0]
    if all(isinstance(value, Mapping) and value.keys() == first.keys() for value in values):
        return {key: _common([value[key] for value in values]) for key in first}
    return first if all(value == first for value in values) else VARIES
