"""Conversion of columns: many at once give the bits of one at a time, and the number of columns is limited."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bench.data.readers import columns, tables
from bench.types import DataError


def table(rows: int, width: int) -> pd.DataFrame:
    draw = np.random.default_rng(width)
    values = draw.normal(5, 30, (rows, width)).round(draw.integers(0, 9))
    values[draw.random((rows, width)) < 0.1] = np.nan
    index = pd.MultiIndex.from_product([["file.csv"], range(1, rows + 1)])
    return pd.DataFrame(values, index, [f"c{number}" for number in range(width)])


@pytest.mark.parametrize("rows", [8, 100, 3000])
def test_many_columns_give_the_bits_of_single_ones(rows):
    wide = table(rows, 30)
    order = np.random.default_rng(0).permutation(rows)
    sites = [("a", order[: rows // 3], order[rows // 3 : rows // 2]), ("b", order[rows // 2 : -2], order[-2:])]
    together = columns.features(wide, sites, [], fill=True)
    alone = [columns.features(wide[[name]], sites, [], fill=True) for name in wide]
    assert together.tobytes() == np.column_stack(alone).tobytes()


def test_too_many_columns_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_COLUMNS", 3)
    file = tmp_path / "wide.csv"
    file.write_text("a,b,c,d\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"wide\.csv: has 4 columns, expected at most 3; remove some"):
        tables.read_table(file)
    pytest.importorskip("pyarrow")
    pd.read_csv(file).to_parquet(parquet := tmp_path / "wide.parquet")
    with pytest.raises(DataError, match=r"wide\.parquet: has 4 columns, expected at most 3; remove some"):
        tables.read_table(parquet)


def test_too_many_words_are_refused(monkeypatch):
    monkeypatch.setattr(columns, "MAX_COLUMNS", 3)
    index = pd.MultiIndex.from_product([["file.csv"], range(1, 5)])
    words = pd.DataFrame({"word": list("abcd")}, index)
    with pytest.raises(DataError, match="4 columns with a column for every word, expected at most 3"):
        columns.features(words, [("a", np.arange(4), np.arange(4))], [], fill=False)
