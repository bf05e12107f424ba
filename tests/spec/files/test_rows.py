"""Rows of tables and figures that are derived from the methods."""

from __future__ import annotations

import pytest

from bench import spec
from bench.types import SpecError
from tests.spec.example import GOOD

METHODS = """
title = "A study"
seeds = [1]
[data]
name = "digits"
[budget]
rounds = 1
local_steps = 1
[defaults]
model = "mlp"
[methods.fedavg]
label = "FedAvg"
[methods.mine]
algorithm = "apfl"
[methods.local]
label = "Silo"
[methods.central]
"""
TABLE = '[[tables]]\nid = "t"\n'


def test_rows_are_all_methods_with_the_checkpoints_that_they_have(study):
    (table,) = study(METHODS + TABLE).tables.values()
    rows = {row.method: (row.of, row.checkpoints) for row in table.rows}
    assert rows == {
        "FedAvg": ("fedavg", ["global", "local"]),
        "mine": ("mine", ["local"]),
        "Silo": ("local", ["local"]),
        "central": ("central", ["local"]),
    }


def test_checkpoints_of_a_table_are_shown_where_the_algorithm_has_them(study):
    table = study(METHODS + TABLE + 'checkpoints = ["latest", "global"]').tables["t"]
    assert [row.checkpoints for row in table.rows] == [["latest", "global"], ["latest"], ["latest"], ["latest"]]
    counts = study(METHODS + TABLE + 'value = "parameters"').tables["t"]
    assert {tuple(row.checkpoints) for row in counts.rows} == {("local",)}
    with pytest.raises(SpecError, match=r"tables\[0\]\.rows\[1\]: apfl has no server checkpoint"):
        study(METHODS + TABLE + 'checkpoints = ["global"]')


def test_a_row_may_differ(study):
    rows = 'rows = ["fedavg", { of = "mine", method = "APFL", checkpoints = ["global", "local"] }]'
    table = study(METHODS + TABLE + rows).tables["t"]
    assert [(row.method, row.checkpoints) for row in table.rows] == [
        ("FedAvg", ["global", "local"]),
        ("APFL", ["global", "local"]),
    ]


def test_curves_have_a_line_for_each_method(study):
    text = '[[figures]]\nid = "c"\nkind = "curves"\ntitle = "C"\nscores = ["accuracy"]\n'
    assert [row.method for row in study(METHODS + text).figures["c"].rows] == ["FedAvg", "mine", "Silo", "central"]


def test_lists_of_rows_have_names(study):
    rows = '[rows]\nbase = ["local", "central"]\nall = ["fedavg", "base"]\n'
    read = study(METHODS + rows + TABLE + 'rows = "base"\n' + TABLE.replace('"t"', '"u"') + 'rows = ["mine", "base"]')
    assert [row.of for row in read.tables["t"].rows] == ["local", "central"]
    assert [row.of for row in read.tables["u"].rows] == ["mine", "local", "central"]


def test_a_list_of_rows_may_hold_others_but_not_itself(study):
    rows = '[rows]\nfirst = ["local", "second"]\nsecond = ["central", "{last}"]\n'
    read = study(METHODS + rows.replace("{last}", "fedavg") + TABLE + 'rows = "first"')
    assert [row.of for row in read.tables["t"].rows] == ["local", "central", "fedavg"]
    with pytest.raises(SpecError, match=r"rows.second\[1\]: the list of rows 'second' contains itself"):
        study(METHODS + rows.replace("{last}", "second") + TABLE + 'rows = "first"')


def test_an_unknown_list_of_rows_is_answered_with_the_nearest(write):
    rows = '[rows]\nboth = ["fedavg", "far"]\n'
    text = GOOD.replace("[[tables]]", f"{rows}[[tables]]").replace("\nrows = [{", '\nrows = "bath" # [{', 1)
    with pytest.raises(SpecError, match=r"tables\[0\].rows: no list of rows is called 'bath': did you mean 'both'\?"):
        spec.read(write(text))
    with pytest.raises(SpecError, match=r"no list of rows is called 'bath': the study has no \[rows\]; give a list"):
        spec.read(write(text.replace(rows, ""), "other.toml"))


def test_a_study_without_tables_gets_one_with_labels(study):
    (table,) = study(METHODS).with_a_table().tables.values()
    assert [row.method for row in table.rows] == ["FedAvg", "mine", "Silo", "central"]
    assert table.rows[1].checkpoints == ["local"]
