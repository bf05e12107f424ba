"""Fed-Heart-Disease: the four hospitals of the UCI heart disease data, prepared as in FLamby; see the card beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench.data.fetch import Asset, locate
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
LICENCE = "CC BY 4.0"
CITATION = (
    "Janosi, Steinbrunn, Pfisterer, Detrano: Heart Disease, UCI Machine Learning Repository (1989), "
    "doi:10.24432/C52P4X; splits of Ogier du Terrail et al.: FLamby, NeurIPS Datasets and Benchmarks (2022)"
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
DROPPED = ("slope", "ca", "thal")  # mostly missing outside Cleveland
# Only the columns whose numbers are names: another number there would silently count as the first level.
LEVELS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "num": (0, 1, 2, 3, 4)}
FEATURES = (
    *("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak"),
    *("cp=2", "cp=3", "cp=4", "restecg=1", "restecg=2"),
)
NORMALISATIONS = ("centre", "pooled", "as_published_central")


@register("fed_heart_disease")
def fed_heart_disease(root: Path | None = None, *, normalisation: str = "centre") -> Federation:
    """Heart disease (yes or no) of 740 patients in four hospitals, from 13 clinical features.

    ``normalisation`` says whose training rows give the mean and the standard deviation: "centre" (each hospital its
    own, FLamby's default), "pooled" (all hospitals together), or "as_published_central" (pooled for training rows,
    the hospital's own for test rows: how the central baseline of FENDA-FL's Table 2 was scored).
    """
    if normalisation not in NORMALISATIONS:
        raise SpecError(f"normalisation = {normalisation!r}: {nearest(str(normalisation), NORMALISATIONS)}")
    parts = {}
    for client, asset in ASSETS.items():
        file = locate(asset, root)
        x, y = features(complete(parse(file.read_text(encoding="ascii"), str(file))))
        train, test = split(y)
        parts[client] = (x[train], y[train], x[test], y[test])

    pooled = np.concatenate([x_train for x_train, *_ in parts.values()])
    clients = []
    for client, (x_train, y_train, x_test, y_test) in parts.items():
        for_train = x_train if normalisation == "centre" else pooled
        for_test = pooled if normalisation == "pooled" else x_train
        clients.append(
            Client(
                client,
                _tensors(standardise(x_train, for_train), y_train),
                _tensors(standardise(x_test, for_test), y_test),
            )
        )
    return Federation("fed_heart_disease", tuple(clients), "binary", licence=LICENCE, citation=CITATION)


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
    """Rows without a missing value, and without the dropped columns: (m, 11)."""
    kept = rows[:, [column not in DROPPED for column in COLUMNS]]
    return kept[~np.isnan(kept).any(axis=1)]


def features(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x (m, 13) in the order of FEATURES and y (m,), 1 for any of the four degrees of disease."""
    column = dict(zip((name for name in COLUMNS if name not in DROPPED), rows.T, strict=True))
    named = (feature.partition("=") for feature in FEATURES)
    x = [column[name] == float(level) if level else column[name] for name, _, level in named]
    return np.stack(x, axis=1).astype(np.float64), (column["num"] > 0).astype(np.int64)


def split(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the fixed training (66 %) and test part, each in file order.

    Stratified where both classes have more than two rows, which Switzerland has not.
    """
    stratify = y if (np.bincount(y, minlength=2) > 2).all() else None
    train, test = train_test_split(
        np.arange(len(y)), train_size=0.66, test_size=1 - 0.66, random_state=43, stratify=stratify
    )
    return np.sort(train), np.sort(test)


def standardise(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """``x`` minus the mean of ``reference``, over its standard deviation (n - 1) plus 1e-9; a constant becomes 0."""
    return (x - reference.mean(axis=0)) / (reference.std(axis=0, ddof=1) + 1e-9)


def _tensors(x: np.ndarray, y: np.ndarray) -> Split:
    return Split(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.float32)[:, None]))
