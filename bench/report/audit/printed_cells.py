"""Cells of printed.csv, read with their decimals and units."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path

from bench.report.audit.claims import COLUMN, NAMES, PrintedCell
from bench.report.audit.rank_claims import MEAN_RANK
from bench.types import SpecError, nearest


def printed_cells(file: Path, percent: Collection[str]) -> tuple[PrintedCell, ...]:
    """Return the rows of printed.csv; a column of a table has the decimals of its value with most.

    ``percent`` are the metrics that are printed in percent.
    """
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            reader = csv.DictReader(opened)
            rows = list(reader)
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from None
    for column in (*NAMES, "value", "ci95", "sd", "mark"):
        if column not in (reader.fieldnames or ()):
            raise SpecError(f"{file}: no column {column!r}: {nearest(column, reader.fieldnames or ())}")
    digits: dict[tuple[str, ...], int] = {}
    for row in rows:
        own = -1 if "e" in row["value"] else len(row["value"].partition(".")[2])
        digits[_column(row)] = max(own, digits.get(_column(row), -1))
    cells = []
    for line, row in enumerate(rows, start=2):
        try:
            cells.append(_cell(row, digits[_column(row)], percent))
        except (TypeError, ValueError):
            raise SpecError(
                f"{file}: line {line}: expected numbers in value, ci95 and sd (the last two or empty)"
            ) from None
    return tuple(cells)


def _column(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in COLUMN)


def _cell(row: Mapping[str, str], digits: int, percent: Collection[str]) -> PrintedCell:
    value, *spread = (float(row[column]) if row[column] else None for column in ("value", "ci95", "sd"))
    if value is None:
        raise ValueError("no value")
    share = row["metric"] in percent and row["dataset"] != MEAN_RANK
    names = {name: row[name] for name in NAMES}
    return PrintedCell(
        **names,
        value=value,
        ci95=spread[0],
        sd=spread[1],
        marks=tuple(row["mark"].split()),
        digits=digits,
        scale=100 if share else 1,
    )
