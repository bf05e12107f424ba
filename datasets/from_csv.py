"""Your own tables: a csv or parquet file per site, or one file with a site column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bench.data.readers.columns import classes, features, words
from bench.data.readers.own_data import check_split, hold_out, own_path, require_classes, require_samples, split
from bench.data.readers.tables import read_table
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, nearest


@register("from_csv")
def from_csv(
    root: Path | None = None,
    *,
    path: str = "",
    target: str = "",
    site_column: str = "",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "error",
    test_fraction: float = 0.25,
    split_seed: int = 0,
) -> Federation:
    """Your own tables: a folder with a csv or parquet file per site, or one file with a ``site_column``.

    ``target`` is the column to predict. Two classes make a binary task, more a multi-class task; classes are numbered
    in the order of their values. Columns in ``drop`` are left out. Text columns, and those in ``categorical``, become
    one 0/1 column per word in the training rows of any site. All others are standardised with the site's own training
    rows. ``missing`` "mean" replaces a missing number by the mean of the site's training rows and a missing word by
    zeros.
    """
    _check(target, site_column, missing, {"drop": drop, "categorical": categorical})
    check_split(test_fraction, split_seed)
    place = own_path(path, root).resolve()
    name = place.name if place.is_dir() else place.stem
    if place.is_dir() and site_column:
        raise SpecError(f"site_column = {site_column!r}: in a folder every file is a site; leave site_column out")
    table, owner = _from_folder(place, drop) if place.is_dir() else _from_file(place, site_column, drop)
    for option, columns in (("target", [target]), ("categorical", categorical)):
        _require(f"{option} of {name}", table, columns)

    y, known = classes(table.pop(target))
    task = require_classes(name, known)
    sites = []
    for site in np.unique(owner).tolist():
        own = np.flatnonzero(owner == site)
        require_samples(name, site, len(own))
        train, test = hold_out(y[own], test_fraction, split_seed)
        sites.append((site, own[train], own[test]))
    x = features(table, sites, categorical, fill=missing == "mean")
    if not x.shape[1]:
        raise DataError(f"{name}: the target is the only column; expected at least one more to predict from")
    clients = (
        Client(site, split(x[train], y[train], task), split(x[test], y[test], task)) for site, train, test in sites
    )
    return Federation(name, tuple(clients), task, classes=len(known))


def _check(target: str, site_column: str, missing: str, lists: dict[str, Sequence[str]]) -> None:
    if not isinstance(target, str) or not target:
        raise SpecError(f"target = {target!r}: expected the name of the column to predict")
    if not isinstance(site_column, str) or site_column == target:
        raise SpecError(f"site_column = {site_column!r}: expected the name of another column than the target")
    if missing not in ("error", "mean"):
        raise SpecError(f"missing = {missing!r}: {nearest(str(missing), ('error', 'mean'))}")
    for option, columns in lists.items():
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise SpecError(f"{option} = {columns!r}: expected a list of column names")
        for taken in {target, site_column} & set(columns):
            raise SpecError(f"{option} = {list(columns)!r}: {taken!r} is the target or the site column")


def _from_folder(folder: Path, drop: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows of all sites, and the site (n,) of each: the name of its file."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in (".csv", ".parquet"))
    if not files:
        raise DataError(f"{folder}: there is no csv or parquet file in this folder; expected one per site")
    tables: list[pd.DataFrame] = []
    for file in files:
        if file.stem in (other.stem for other in files if other < file):
            raise DataError(f"{file}: site {file.stem!r} has another file; remove one of them")
        table = read_table(file)
        _require(str(file), table, drop)
        table = table.drop(columns=list(drop))
        if tables:
            _require(str(file), table, list(tables[0]))
            _require(str(files[0]), tables[0], list(table))
        tables.append(table)
    return pd.concat(tables), np.repeat([file.stem for file in files], [len(table) for table in tables])


def _from_file(file: Path, site_column: str, drop: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray]:
    if not site_column:
        raise SpecError(f"{file}: is one file; name the column of sites with site_column = '...'")
    table = read_table(file)
    _require(str(file), table, [*drop, site_column])
    table = table.drop(columns=list(drop))
    return table, np.array(words(table.pop(site_column)), dtype=str)


def _require(where: str, table: pd.DataFrame, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in table:
            raise DataError(f"{where}: there is no column {column!r}: {nearest(column, table.columns)}")
