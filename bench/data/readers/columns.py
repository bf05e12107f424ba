"""Columns of an unknown table as numbers: measurements standardised, words one column each, targets class numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.preprocessing import StandardScaler

from bench.data.readers.tables import numbers, place
from bench.types import DataError

MOST_LEVELS = 100  # of a column of words; more are names or free text
# Of each site: its name, and the positions of its training and its test rows.
Sites = Sequence[tuple[str, np.ndarray, np.ndarray]]


def features(table: pd.DataFrame, sites: Sites, categorical: Sequence[str], *, fill: bool) -> np.ndarray:
    """x (n, d) float32: the columns in their order, one of words replaced by a 0/1 column for each of its words.

    With ``fill``, missing numbers become the mean of the site's training rows and missing words zeros; else they are
    refused. Raises :class:`DataError` naming file, row and column.
    """
    training = np.concatenate([train for _, train, _ in sites])
    blocks = [np.empty((len(table), 0))]
    for name in table:
        column = table[name]
        if name in categorical or _holds_words(column):
            blocks.append(_one_hot(column, training, fill))
        else:
            blocks.append(_standardised(column, sites, fill))
    return np.column_stack(blocks).astype(np.float32)


def classes(column: pd.Series) -> tuple[np.ndarray, list[object]]:
    """The class number (n,) of every cell, and the classes in the order of their values."""
    if not _holds_words(column):
        values = numbers(column)
        fractional = values != np.floor(values)
        if fractional.any():
            row = fractional.argmax()
            raise DataError(f"{place(column, row)}: found {values[row]:g}, expected a class, not a measurement")
    else:
        values = np.array(words(column), dtype=str)
    known, y = np.unique(values, return_inverse=True)
    return y.astype(np.int64), known.tolist()


def words(column: pd.Series, *, fill: bool = False) -> list[str]:
    """The cells as words; a missing one is "" with ``fill``, else refused."""
    found = ["" if gone else _word(cell) for cell, gone in zip(column.tolist(), column.isna(), strict=True)]
    if not fill and "" in found:
        raise DataError(f"{place(column, found.index(''))}: the cell is empty")
    return found


def _word(cell: object) -> str:
    return f"{cell:.15g}" if isinstance(cell, float) else str(cell).strip()


def _holds_words(column: pd.Series) -> bool:
    """Whether no cell is a number; refuses columns where some are, and cells that are neither."""
    if is_numeric_dtype(column):
        return False
    given = np.flatnonzero(column.notna())
    cells = column.dropna().tolist()
    for row, cell in zip(given, cells, strict=True):
        if not isinstance(cell, str | int | float):
            raise DataError(
                f"{place(column, row)}: found a {type(cell).__name__}, expected a number or a word; drop it"
            )
    numeric = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").notna().to_numpy()
    if numeric.any() and not numeric.all():
        first = numeric.argmin()
        raise DataError(
            f"{place(column, given[first])}: found {cells[first]!r} among numbers; "
            "mend it, or list the column in categorical if all its cells are names"
        )
    return not numeric.all()


def _one_hot(column: pd.Series, training: np.ndarray, fill: bool) -> np.ndarray:
    """(n, levels): a column for every word of the training rows, in alphabetical order."""
    found = np.array(words(column, fill=fill), dtype=str)
    levels = [level for level in np.unique(found[training]) if level]
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"column {column.name}: {len(levels)} different words, at most {MOST_LEVELS} are read; "
            f"leave it out with drop = [{column.name!r}]"
        )
    return found[:, None] == np.array(levels, dtype=str)


def _standardised(column: pd.Series, sites: Sites, fill: bool) -> np.ndarray:
    """(n, 1): minus the mean and over the standard deviation (n) of each site's training rows; a constant is 0."""
    values = numbers(column, missing=fill)[:, None]
    scaled = np.empty_like(values)
    for site, train, test in sites:
        if np.isnan(values[train]).all():
            raise DataError(
                f"column {column.name}: site {site!r} has no value in its training rows; drop the column or the site"
            )
        scaler = StandardScaler().fit(values[train])
        for rows in (train, test):
            scaled[rows] = np.nan_to_num(scaler.transform(values[rows]))  # what is missing becomes the mean, 0
    return scaled
