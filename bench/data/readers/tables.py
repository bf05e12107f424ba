"""Readers of csv and parquet tables. Errors name file, row and column.

The index of a table is (file, row). Rows are counted from 1 below the header, without blank lines.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.limits import MAX_COLUMNS, MAX_TABLE_BYTES
from bench.optional import optional
from bench.types import DataError, nearest

MAX_NUMBER = 1e30  # its square is a finite float32


def read_table(file: Path) -> pd.DataFrame:
    """Return the table in ``file``: csv (UTF-8, commas, a header) or parquet. Cells keep their types.

    Raises :class:`DataError` for other files, columns without a name or with equal names, and tables without rows.
    """
    if not file.is_file():
        raise DataError(f"{file}: there is no such file; check the path")
    if (size := file.stat().st_size) > MAX_TABLE_BYTES:
        raise DataError(f"{file}: has {size / 2**30:.1f} GiB, expected at most {MAX_TABLE_BYTES / 2**30:g} GiB")
    frame = _read_parquet(file) if file.suffix.lower() == ".parquet" else read_csv(file, _header(file))
    if frame.empty:
        raise DataError(f"{file}: has a header but no rows")
    return frame.set_axis(pd.MultiIndex.from_product([[str(file)], range(1, len(frame) + 1)]), axis=0)


def read_numbers(
    file: Path, columns: Sequence[str], codes: Mapping[str, Mapping[str, int]] | None = None
) -> pd.DataFrame:
    """Return a table with exactly ``columns`` (in any order) as float64; ``codes`` give the numbers for words.

    Raises :class:`DataError` for missing or other columns, empty cells and cells that are not numbers.
    """
    frame = read_table(file)
    require_columns(frame, columns, str(file))
    for column, levels in (codes or {}).items():
        known = frame[column].isin(levels).to_numpy()
        if not known.all():
            row = known.argmin()
            raise DataError(
                f"{place(frame[column], row)}: {_found(frame[column], row)}, expected {' or '.join(levels)}"
            )
        frame[column] = frame[column].map(levels)
    return pd.DataFrame({column: numbers(frame[column]) for column in columns})


def require_columns(frame: pd.DataFrame, columns: Sequence[str], file: str) -> None:
    """Raise :class:`DataError` if a table lacks one of ``columns`` or has another one."""
    for column in columns:
        if column not in frame:
            raise DataError(f"{file}: there is no column {column!r}: {nearest(column, frame.columns)}")
    for column in frame:
        if column not in columns:
            raise DataError(f"{file}: unexpected column {column!r}, expected {', '.join(columns)}")


def place(column: pd.Series, row: int | np.integer) -> str:
    """Return file, row and column of the cell at position ``row``, for error messages."""
    file, number = column.index[row]
    return f'{file}, row {number}, column "{column.name}"'


def numbers(column: pd.Series, *, missing: bool = False) -> np.ndarray:
    """Return the cells (n,) float64, with NaN for missing cells if ``missing`` allows them.

    Raises :class:`DataError` with the first cell that is not a number.
    """
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~(np.abs(values) < MAX_NUMBER)
    if missing:
        bad &= ~column.isna().to_numpy()
    if bad.any():
        row = bad.argmax()
        raise DataError(f"{place(column, row)}: {_found(column, row)}, expected a number below {MAX_NUMBER:g}")
    return values


def _found(column: pd.Series, row: int | np.integer) -> str:
    cell = column.iloc[[row]].tolist()[0]
    return "found nothing" if pd.isna(cell) else f"found {cell!r}"


def read_csv(file: Path, names: Sequence[str] | None, **options: Any) -> pd.DataFrame:
    """Read a csv file with pandas; without ``names`` the file has no header.

    Raises :class:`DataError` for a file that is not UTF-8, is empty or has rows of different lengths.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # the first row is too long
            return pd.read_csv(
                file,
                header=None if names is None else 0,
                names=None if names is None else list(names),
                index_col=False,
                encoding="utf-8-sig",
                skipinitialspace=True,
                low_memory=False,
                **options,
            )
    except UnicodeDecodeError as error:
        raise _not_utf8(file, error) from None
    except pd.errors.EmptyDataError:
        raise DataError(f"{file}: is empty") from None
    except pd.errors.ParserWarning:
        raise DataError(f"{file}, row 1: has more cells than there are columns") from None
    except (OverflowError, ValueError) as error:  # ParserError is one
        reason = str(error).splitlines()[0].rpartition("C error: ")[2].rstrip(".")
        raise DataError(f"{file}: is not a correct csv file ({reason})") from None


def _header(file: Path) -> list[str]:
    """The column names in the first line of a csv."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            lines = (line for line in csv.reader(stream, skipinitialspace=True) if line)
            names = [name.strip() for name in next(lines, [])]
    except UnicodeDecodeError as error:
        raise _not_utf8(file, error) from None
    except csv.Error as error:
        raise DataError(f"{file}: is not a correct csv file ({error})") from None
    if not names:
        raise DataError(f"{file}: is empty")
    if len(names) == 1 and ";" in names[0]:
        raise DataError(f"{file}: has columns separated by semicolons, expected commas; save it with commas")
    return _distinct(names, file)


def _distinct(names: list[str], file: Path) -> list[str]:
    _refuse_wide(len(names), file)
    seen = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise DataError(f"{file}: column {number} has no name; name it or remove it")
        if name in seen:
            raise DataError(f"{file}: has more than one column {name!r}; rename one of them")
        seen.add(name)
    return names


def _refuse_wide(columns: int, file: Path) -> None:
    if columns > MAX_COLUMNS:
        raise DataError(f"{file}: has {columns:,} columns, expected at most {MAX_COLUMNS:,}; remove some")


def _read_parquet(file: Path) -> pd.DataFrame:
    optional("pyarrow", "parquet")
    from pyarrow import parquet

    try:
        _refuse_wide(len(parquet.read_schema(file)), file)
        frame = pd.read_parquet(file, engine="pyarrow")
    except (OSError, ValueError) as error:  # these include pyarrow's errors
        raise DataError(f"{file}: is not a correct parquet file ({str(error).splitlines()[0]})") from None
    frame.columns = pd.Index(_distinct([str(name).strip() for name in frame.columns], file))
    return frame.astype({name: object for name, kind in frame.dtypes.items() if kind == "category"})


def _not_utf8(file: Path, error: UnicodeDecodeError) -> DataError:
    return DataError(f"{file}: is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8")
