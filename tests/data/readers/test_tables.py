"""Tables with known columns: numbers, or an error with file, row and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.data.readers.tables import read_numbers
from bench.types import DataError

GOOD = "a,b\n1,yes\n 2.5,no\n"
CODES = {"b": {"no": 0, "yes": 1}}


def read(tmp_path: Path, text: str):
    (tmp_path / "file.csv").write_text(text)
    return read_numbers(tmp_path / "file.csv", ("b", "a"), CODES)


def test_columns_come_in_the_order_asked_for_and_words_as_codes(tmp_path: Path):
    table = read(tmp_path, GOOD)
    assert list(table) == ["b", "a"]
    assert table.to_numpy().tolist() == [[1, 1], [0, 2.5]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("no", "maybe", r"file\.csv, row 2, column .b.: found 'maybe', expected no or yes$"),
        ("no", "", r"file\.csv, row 2, column .b.: found nothing, expected no or yes$"),
        ("2.5", "x", r"file\.csv, row 2, column .a.: found 'x', expected a number below 1e\+30$"),
        ("2.5", "", r"file\.csv, row 2, column .a.: found nothing, expected a number"),
        ("2.5", "-inf", r"file\.csv, row 2, column .a.: found -inf, expected a number"),
        ("a,b", "a,B", r"file\.csv: there is no column 'b': expected one of B, a$"),
        ("a,b", "a,b,c", r"file\.csv: unexpected column 'c', expected b, a$"),
        ("a,b", "a,a", r"file\.csv: has more than one column 'a'"),
        ("1,yes", "1", r"file\.csv, row 1, column .b.: found nothing"),
        ("1,yes", "1,yes,3", r"file\.csv, row 1: has more cells than there are columns"),
    ],
)
def test_altered_files_are_refused(tmp_path: Path, old: str, new: str, message: str):
    with pytest.raises(DataError, match=message):
        read(tmp_path, GOOD.replace(old, new))


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"nowhere\.csv: there is no such file"):
        read_numbers(tmp_path / "nowhere.csv", ("a",))
