from __future__ import annotations

import pytest

from bench.report.tables.footnotes import listed


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ((42,), "42"),
        ((1, 2), "1, 2"),
        ((1, 2, 3), "1 to 3"),
        ((8, 10, 11, 12), "8, 10 to 12"),
        ((3, 1, 2, 9, 7), "1 to 3, 7, 9"),
        (range(10), "0 to 9"),
        (range(101), "0 to 100 (101 seeds)"),
        ((*range(1, 11), 20), "1 to 10, 20 (11 seeds)"),
    ],
)
def test_seeds_in_a_row_are_a_range_and_many_are_counted(seeds, text):
    assert listed(seeds) == text
