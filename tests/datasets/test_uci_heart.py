"""Raw files of the UCI heart disease data: checksums, values, and refused changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from bench._datasets.uci_heart import FILES, complete, parse
from bench.types import DataError

ROW = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


def test_pinned_hashes_are_of_the_real_files(bench_data: Path):
    for file in FILES.values():
        content = (bench_data / file.path).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.size)
        assert file.urls[0].endswith(Path(file.path).name)


def test_missing_values_are_allowed_in_features_only():
    rows = parse(ROW + ROW.replace("233.0", "?"), "file")
    assert rows.shape == (2, 14)
    assert np.argwhere(np.isnan(rows)).tolist() == [[1, 4]]
    assert len(complete(rows)) == 1


def test_missing_slope_drops_no_row():
    assert len(complete(parse(ROW.replace("3.0,0.0,6.0", "?,?,?"), "file"))) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW.replace(",0\n", ",0,1\n"), r"^file, row 2: 15 columns, expected 14 \(age, .*, num\)$"),
        (ROW.replace("63.0,", ""), r"^file, row 2: 13 columns, expected 14"),
        ("\n", r"^file, row 2: 1 columns, expected 14"),
        (ROW.replace(",0\n", ",?\n"), r"^file, row 2, column \"num\": found '\?', expected a number$"),
        (
            ROW.replace("145.0", "high"),
            r"row 2, column \"trestbps\": found 'high', expected a number or \"\?\"$",
        ),
        (ROW.replace("145.0", "nan"), r"^file, row 2, column \"trestbps\": found 'nan', expected a number"),
        (ROW.replace("145.0", ""), r"^file, row 2, column \"trestbps\": found '', expected a number"),
        (ROW.replace(",0\n", ",5\n"), r"^file, row 2, column \"num\": found 5, expected one of \(0, 1, 2, 3, 4\)$"),
        (ROW.replace("63.0,1.0,1.0", "63.0,1.0,9"), r"^file, row 2, column \"cp\": found 9, expected one of"),
    ],
)
def test_altered_rows_are_refused(row: str, message: str):
    with pytest.raises(DataError, match=message):
        parse(ROW + row, "file")


def test_empty_file_is_refused():
    with pytest.raises(DataError, match=r"^file: is empty, expected rows of 14 columns"):
        parse("", "file")
