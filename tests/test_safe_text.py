"""Text from outside: printable, in one line, and no formula in a spreadsheet."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.safe_text import UNPRINTABLE, csv_text, one_line, printable, printable_line, without_unprintable

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202etxt.exe\u2066\u200b\u2028\x7f\udcff\U000e0041"


@pytest.mark.parametrize("text", ["plain text\tand\n", "Zürich, 東京, Ω ± √ – ↑", "🙂", '\\u001b "quoted"'])
def test_ordinary_text_is_unchanged(text):
    assert printable(text) == text


@given(st.text())
def test_printed_text_has_no_control_or_format_character(text):
    for made in (printable(text), without_unprintable(text)):
        assert UNPRINTABLE.isdisjoint({unicodedata.category(letter) for letter in made if letter not in "\n\t"})
    assert printable(printable(text)) == printable(text)
    assert len(one_line(text).splitlines()) <= 1


def test_json_keeps_its_meaning():
    document = json.dumps({"name": HOSTILE}, ensure_ascii=False)
    assert json.loads(printable(document)) == {"name": HOSTILE}


def test_texts_that_start_like_formulas_get_an_apostrophe_and_numbers_do_not():
    texts = ["=1+1", "+x", "-2+3", "@a", "\ta", "-0.5", "+1e-3", "-inf", "-", "a=1", "", None]
    frame = pd.DataFrame({"=name": texts, "n": range(len(texts)), "x": np.linspace(-1, 1, len(texts))})
    lines = csv_text(frame).splitlines()
    assert lines[0] == "'=name,n,x"
    cells = [line.split(",")[0] for line in lines[1:]]
    assert cells == ["'=1+1", "'+x", "'-2+3", "'@a", "'\ta", "-0.5", "+1e-3", "-inf", "'-", "a=1", "", ""]


def test_a_text_with_a_carriage_return_stays_in_its_cell():
    text = csv_text(pd.DataFrame({"a\r=1": ["b\r=1", "=c\r=1", "d\n=1"]}))
    assert text == 'a\\u000d=1\nb\\u000d=1\n\'=c\\u000d=1\n"d\n=1"\n'


def test_a_printable_line_is_one_line():
    assert printable_line("a\x1b[2J\nb\r\u2028c") == "a\\u001b[2J\\nb\\u000d\\u2028c"


def test_a_table_without_such_texts_is_written_as_pandas_writes_it():
    columns = {
        "words": ["a", None, 'b,"c"'],
        "mixed": pd.Series([1, None, 0.1], dtype=object),
        "whole": pd.Series([1, None, 3], dtype="Int64"),
        "real": [-0.1, float("nan"), 1e-17],
        "flag": [True, False, True],
    }
    for frame in (pd.DataFrame(columns), pd.DataFrame(columns=["a", "b"]), pd.DataFrame()):
        assert csv_text(frame) == frame.to_csv(index=False, lineterminator="\n")
