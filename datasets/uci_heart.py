"""The four hospitals of the UCI heart disease data: their raw files, checked and read; no preparation of any paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files.download import Asset, locate
from bench.types import DataError

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
LICENCE = "CC BY 4.0"
CITATION = (
    "Janosi, Steinbrunn, Pfisterer, Detrano: Heart Disease, UCI Machine Learning Repository (1989), doi:10.24432/C52P4X"
)


def _asset(site: str, size: int, sha256: str) -> Asset:
    name = f"processed.{site}.data"
    return Asset(f"heart_disease/{name}", sha256, size, (UCI + name,), LICENCE)


ASSETS = {
    "cleveland": _asset("cleveland", 18461, "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
    "hungarian": _asset("hungarian", 10263, "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
    "switzerland": _asset("switzerland", 4109, "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
    "va_long_beach": _asset("va", 6737, "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
}
COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"),
)
# Only the columns whose numbers are names: another number there would silently count as the first level.
LEVELS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "num": (0, 1, 2, 3, 4)}
MOSTLY_MISSING = ("slope", "ca", "thal")  # outside Cleveland
COMPLETE_COLUMNS = tuple(column for column in COLUMNS if column not in MOSTLY_MISSING)


def read(site: str, root: Path | None) -> np.ndarray:
    """The rows (n, 14) of a hospital's file in the order of COLUMNS, "?" as NaN; raises :class:`DataError`."""
    file = locate(ASSETS[site], root)
    return parse(file.read_text(encoding="ascii"), str(file))


def parse(text: str, file: str) -> np.ndarray:
    """The rows (n, 14) of a raw ``file``, "?" as NaN; raises :class:`DataError` naming file, row and column."""
    rows = [_row(line.split(","), f"{file}, row {number}") for number, line in enumerate(text.splitlines(), start=1)]
    if not rows:
        raise DataError(f"{file} is empty, expected rows of {len(COLUMNS)} columns; download it again")
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
        raise DataError(f"{where}, column {column}: found {cell!r}, expected a number{missing}")
    if column in LEVELS and value not in LEVELS[column]:
        raise DataError(f"{where}, column {column}: found {cell}, expected one of {LEVELS[column]}")
    return value


def complete(rows: np.ndarray) -> np.ndarray:
    """(m, 11), COMPLETE_COLUMNS: without the columns that are mostly missing, then without rows that miss a value."""
    kept = rows[:, [COLUMNS.index(column) for column in COMPLETE_COLUMNS]]
    return kept[~np.isnan(kept).any(axis=1)]
