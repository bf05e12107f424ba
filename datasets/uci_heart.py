"""Raw files of the UCI heart disease data from four hospitals, read and checked; shared by three data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.types import DataError

FILES = raw_files(str(Path(__file__).with_name("fed_heart_disease.md")))
COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"),
)
# Columns whose numbers are codes. An unknown code would otherwise count as the first level without a message.
LEVELS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "num": (0, 1, 2, 3, 4)}
MOSTLY_MISSING = ("slope", "ca", "thal")  # outside Cleveland
COMPLETE_COLUMNS = tuple(column for column in COLUMNS if column not in MOSTLY_MISSING)


def read(site: str, root: Path | None) -> np.ndarray:
    """Return the rows (n, 14) of a hospital's file in the order of COLUMNS, with NaN for "?".

    Raises :class:`DataError`.
    """
    file = locate(FILES[site], root)
    return parse(file.read_text(encoding="ascii"), str(file))


def parse(text: str, file: str) -> np.ndarray:
    """Return the rows (n, 14) of the ``text`` of a raw ``file``, with NaN for "?".

    Raises :class:`DataError` with file, row and column.
    """
    rows = [_row(line.split(","), f"{file}, row {number}") for number, line in enumerate(text.splitlines(), start=1)]
    if not rows:
        raise DataError(f"{file}: is empty, expected rows of {len(COLUMNS)} columns; download it again")
    return np.array(rows)


def _row(cells: list[str], where: str) -> list[float]:
    if len(cells) != len(COLUMNS):
        raise DataError(f"{where}: {len(cells)} columns, expected {len(COLUMNS)} ({', '.join(COLUMNS)})")
    return [_value(cell.strip(), column, where) for cell, column in zip(cells, COLUMNS, strict=True)]


def _value(cell: str, column: str, where: str) -> float:
    if cell == "?" and column != "num":
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        missing = "" if column == "num" else ' or "?"'
        raise DataError(f'{where}, column "{column}": found {cell!r}, expected a number{missing}')
    if column in LEVELS and value not in LEVELS[column]:
        raise DataError(f'{where}, column "{column}": found {cell}, expected one of {LEVELS[column]}')
    return value


def complete(rows: np.ndarray) -> np.ndarray:
    """Return COMPLETE_COLUMNS (m, 11) of the rows in which none of their values is missing."""
    kept = rows[:, [COLUMNS.index(column) for column in COMPLETE_COLUMNS]]
    return kept[~np.isnan(kept).any(axis=1)]
