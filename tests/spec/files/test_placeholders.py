"""Placeholders in texts of tables and figures."""

from __future__ import annotations

import pytest

from bench.spec.files.placeholders import filled
from bench.types import SpecError

TEXTS = {"data": "Digits", "data.name": "digits", "number": 3, "layers": ["conv", "fc"]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Table {number} on {data}", "Table 3 on Digits"),
        (
            {"id": "t/{data.name}", "digits": 3, "rows": [{"of": "{data}"}]},
            {"id": "t/digits", "digits": 3, "rows": [{"of": "Digits"}]},
        ),
        (["{layers}", "last"], ["conv", "fc", "last"]),
        ("no { placeholder }", "no { placeholder }"),
    ],
)
def test_placeholders_are_replaced(value, expected):
    assert filled(value, TEXTS) == expected


def test_an_unknown_placeholder_is_answered_with_the_nearest():
    with pytest.raises(SpecError, match=r"unknown placeholder \{dta\}: did you mean 'data'\?"):
        filled(["{dta}"], TEXTS)
