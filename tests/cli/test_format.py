"""Text output of numbers, durations and columns."""

from __future__ import annotations

import pytest

from bench.cli import format as text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "?"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (601, "10 min"), (3599, "60 min"),
     (3600, "1 h 00 min"), (7384, "2 h 03 min")],
)  # fmt: skip
def test_durations_are_as_precise_as_useful(seconds, expected):
    assert text.duration(seconds) == expected


def test_counts_have_their_noun():
    assert [text.count(1, "run"), text.count(1234, "run"), text.batches(2)] == ["1 run", "1,234 runs", "2 run batches"]


def test_numbers_are_short_or_exact():
    assert [text.number(None), text.number(1210), text.number(0.123456)] == ["-", "1,210", "0.1235"]
    assert [text.exact(0.0123456789), text.exact(0.5), text.exact("a"), text.exact(None)] == [
        "0.0123456789", "0.5", '"a"', "null",
    ]  # fmt: skip
    assert [text.brief(0.0123456789), text.brief("a")] == ["0.0123457", "a"]


def test_columns_are_aligned_numbers_to_the_right():
    assert text.aligned([["a", "1"], ["bcd", "23"]]) == ["a    1", "bcd  23"]
    assert text.aligned([["a", "1"], ["bcd", "23"]], numbers_from=1) == ["a     1", "bcd  23"]
    assert text.aligned([["a\x1b\n", "1"], ["b", "23"]]) == ["a\\u001b\\n  1", "b          23"]
    assert text.aligned([]) == []
