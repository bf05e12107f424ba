"""Provenance of tables: the runs of each method, their records and their common specification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.report.scores import Record
from bench.report.tables.table import Table
from bench.types import Chosen

VARIES = "(differs by run)"


class RunProvenance(NamedTuple):
    """One run; everything but the seed is empty if the record is missing. ``sha256`` is the record's checksum."""

    seed: int
    run: str
    status: str
    fingerprint: str
    versions: str
    path: str
    sha256: str


class MethodProvenance(NamedTuple):
    """The runs of one method: the table's ``rows`` made from it, the selection rule, and the ``spec`` as JSON."""

    rows: tuple[str, ...]
    rule: str
    searched: int
    spec: str
    runs: tuple[RunProvenance, ...]


def behind(table: Table) -> dict[str, list[str]]:
    """Return the rows made from each method of a table, by key; none for a method that is only compared with."""
    rows: dict[str, list[str]] = {}
    for row in table.spec.rows:
        rows.setdefault(row.of, []).append(row.method)
    for method in table.spec.against:
        rows.setdefault(method, [])
    return rows


def sources(table: Table, chosen: Mapping[str, Chosen]) -> list[MethodProvenance]:
    """Return the provenance of the table's rows, in their order; rows of the same runs share one."""
    return [_source(tuple(rows) or (of,), chosen[of]) for of, rows in behind(table).items() if of in chosen]


def versions(records: Iterable[Record]) -> list[str]:
    """Return the versions that the records were made with, each combination once, in alphabetical order."""
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
    checksum = record.get("sha256", "")
    return RunProvenance(
        seed, record["run"], record["status"], fingerprint, _versions(record), record["path"], checksum
    )


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(record["versions"].items()))


def _common(values: Sequence[Any]) -> Any:
    """Return the common part of all ``values``, key by key if they are mappings."""
    first = values[0]
    if all(isinstance(value, Mapping) and value.keys() == first.keys() for value in values):
        return {key: _common([value[key] for value in values]) for key in first}
    return first if all(value == first for value in values) else VARIES
