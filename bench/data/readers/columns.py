"""Conversion of table columns to numbers: standardised measurements, one-hot words, class numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.preprocessing import StandardScaler

from bench.data.readers.tables import numbers, place
from bench.limits import MAX_COLUMNS, MAX_LEVELS
from bench.types import DataError

# The name of each site, and the positions of its training and test rows.
Sites = Sequence[tuple[str, np.ndarray, np.ndarray]]


def features(table: pd.DataFrame, sites: Sites, categorical: Sequence[str], *, fill: bool) -> np.ndarray:
    """Return x (n, d) float32: the columns in order; a categorical column becomes a 0/1 column for each word.

    With ``fill``, missing numbers become the mean of the site's training rows and missing words zeros. Without it they
    raise :class:`DataError`, as do all other bad cells, with file, row and column.
    """
    training = np.concatenate([train for _, train, _ in sites])
    named = set(categorical)
    with_words = {name for name, column in table.items() if name in named or _holds_words(column)}
    rest = [name for name in table if name not in with_words]
    measured = dict(zip(rest, _standardised(table[rest], sites, fill).T, strict=True))
    worded = {name: _one_hot(table[name], training, fill) for name in table if name in with_words}
    width = len(rest) + sum(block.shape[1] for block in worded.values())
    if width > MAX_COLUMNS:
        raise DataError(f"{width:,} columns with a column for every word, expected at most {MAX_COLUMNS:,}; drop some")
    blocks = (worded[name] if name in worded else measured[name] for name in table)
    return np.column_stack([np.empty((len(table), 0)), *blocks]).astype(np.float32)


def classes(column: pd.Series) -> tuple[np.ndarray, list[object]]:
    """Return the class number (n,) of every cell, and the classes in the order of their values."""
    if not _holds_words(column):
        values = numbers(column)
        fractional = values != np.floor(values)
        if fractional.any():
            row = fractional.argmax()
            raise DataError(f"{place(column, row)}: found {values[row]:g}, expected a class (a whole number or a word)")
    else:
        values = np.array(words(column), dtype=str)
    known, y = np.unique(values, return_inverse=True)
    return y.astype(np.int64), known.tolist()


def words(column: pd.Series, *, fill: bool = False) -> list[str]:
    """Return the cells as words; a missing cell is "" with ``fill`` and raises :class:`DataError` without it."""
    found = ["" if gone else _word(cell) for cell, gone in zip(column.tolist(), column.isna(), strict=True)]
    if not fill and "" in found:
        raise DataError(f"{place(column, found.index(''))}: the cell is empty")
    return found


def _word(cell: object) -> str:
    return f"{cell:.15g}" if isinstance(cell, float) else str(cell).strip()


def _holds_words(column: pd.Series) -> bool:
    """Return whether no cell is a number; raise :class:`DataError` for a mixed column and for other types of cells."""
    if is_numeric_dtype(column):
        return False
    given = np.flatnonzero(column.notna())
    cells = column.dropna().tolist()
    for row, cell in zip(given, cells, strict=True):
        if not isinstance(cell, str | int | float):
            raise DataError(
                f"{place(column, row)}: found a {type(cell).__name__}, expected a number or a word; drop the column"
            )
    numeric = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").notna().to_numpy()
    if numeric.any() and not numeric.all():
        first = numeric.argmin()
        raise DataError(
            f"{place(column, given[first])}: found {cells[first]!r} among numbers; "
            "correct the cell, or list the column under categorical if all its cells are names"
        )
    return not numeric.all()


def _one_hot(column: pd.Series, training: np.ndarray, fill: bool) -> np.ndarray:
    """(n, words): a column for every word in the training rows, in alphabetical order."""
    found = np.array(words(column, fill=fill), dtype=str)
    levels = [level for level in np.unique(found[training]) if level]
    if len(levels) > MAX_LEVELS:
        raise DataError(
            f'column "{column.name}": has {len(levels)} different words, expected at most {MAX_LEVELS}; '
            f"leave it out with drop = [{column.name!r}]"
        )
    return found[:, None] == np.array(levels, dtype=str)


def _standardised(table: pd.DataFrame, sites: Sites, fill: bool) -> np.ndarray:
    """(n, d): minus the mean, over the standard deviation (n) of the site's training rows; constants become 0.

    Columns are contiguous, so that sums over rows are rounded as those of a single column.
    """
    values = np.empty(table.shape, order="F")
    for number, (_, column) in enumerate(table.items()):
        values[:, number] = numbers(column, missing=fill)
    scaled = np.empty_like(values)
    for site, train, test in sites:
        own = np.asfortranarray(values[train])
        if (empty := np.isnan(own).all(axis=0)).any():
            name = table.columns[empty.argmax()]
            raise DataError(
                f'column "{name}": site {site!r} has no value in its training rows; drop the column or the site'
            )
        if own.shape[1]:
            scaler = StandardScaler().fit(own)
            for rows in (train, test):
                scaled[rows] = np.nan_to_num(scaler.transform(values[rows]))  # missing values become the mean, 0
    return scaled
