"""Commands `reproduce-table`, `reproduce-figure` and `reproduce-paper`: defaults and exit statuses."""

from __future__ import annotations

import sys

import pytest

from bench.sweep import study as running


def test_the_number_of_a_table_stands_for_all_of_its_parts(silobench):
    """Fed-IXI is downloaded by its users."""
    status, _, err = silobench("reproduce-table", "fenda/12")
    assert status == 3
    assert [line for line in err.splitlines() if "left out" in line] == [
        f"fenda/{part}: left out, data files are missing" for part in ("12-ixi", "12-ixi-parameters")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["reproduce-table", "fenda/2-hart"],
            "error: unknown table 'fenda/2-hart' (see `silobench list tables`): did you mean 'fenda/2-heart'?\n",
        ),
        (
            ["reproduce-figure", "fenda/3-hart"],
            "error: unknown figure 'fenda/3-hart' (see `silobench list figures`): did you mean 'fenda/3-heart'?\n",
        ),
        (["sweep", "none.toml"], "error: none.toml: No such file or directory; give the path of a study file\n"),
    ],
)
def test_a_fault_is_one_line_and_exits_2(silobench, arguments, expected):
    assert silobench(*arguments) == (2, "", expected)


def test_quickstart_is_what_reproduce_table_makes_unless_told(silobench, monkeypatch):
    asked = []
    monkeypatch.setattr(running, "run_study", lambda study, store, **options: asked.append(study) or sys.exit(0))
    assert silobench("reproduce-table")[0] == 0
    assert list(asked[0].tables) == ["quickstart"]


def test_an_unknown_figure_is_answered_with_some_known_ones(silobench):
    status, _, err = silobench("reproduce-figure", "x")
    assert status == 2
    assert err.startswith("error: unknown figure 'x' (see `silobench list figures`): expected one of apple/")
    assert err.endswith(" more\n")
