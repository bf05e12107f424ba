"""Tables whose columns are data sets: what they hold, what they rank, and what they refuse around a hole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.report.ranks import friedman_as_published
from bench.report.tables import compare, render
from bench.report.tables.build import build
from bench.report.tables.joint import join
from bench.report.tables.table import Row, TableSpec
from bench.spec import JointSection, Number
from bench.types import SpecError

METHODS = ("Local", "FedAvg", "Ditto")
SCORES = {"a": (0.5, 0.6, 0.7), "b": (0.4, 0.5, 0.3), "c": (0.1, 0.2, 0.3)}


def section(**keys):
    columns = [{"table": name, "label": name.upper()} for name in SCORES]
    return JointSection(id="paper/1", title="Table 1", columns=columns, rows=list(METHODS), **keys)


@pytest.fixture
def tables(choice):
    def make(name, value="mean", **options):
        rows = tuple(Row(method, method, checkpoints=("global", "local")) for method in METHODS)
        spec = TableSpec(name, name, f"data {name}", "accuracy", rows, value=value, **options)
        chosen = {method: choice([score, score]) for method, score in zip(METHODS, SCORES[name], strict=True)}
        return build(spec, chosen, [Number("Ditto", "local", SCORES[name][2] + 0.05)])

    return {name: make(name) for name in SCORES} | {"make": make}


def test_columns_are_tables_and_mean_ranks_stand_beside_them(tables):
    table = join(section(), tables, {"Ditto": 1.5})
    # Ranks: Local 3 2 3, FedAvg 2 1 2, Ditto 1 3 1.
    assert [cell.mean for cell in table.overall] == pytest.approx([8 / 3, 5 / 3, 5 / 3])
    assert table.cell("Ditto", "local").printed == 1.5
    assert [table.cell("Ditto", "local", str(i)).mean for i in range(3)] == [0.7, 0.3, 0.3]
    assert table.cell("Ditto", "local", "1").verdict == "off"
    assert render.layout(table)[0] == ["Mean rank", "A", "B", "C"]
    assert render.layout(table)[1][2][1][0].ours == "1.67"
    assert any("Average ranks over 3 data sets" in line for line in table.footnotes)
    assert any(line.startswith("Friedman: chi2(2)") for line in table.footnotes)
    assert any(line.startswith("Nemenyi") for line in table.footnotes)
    assert table.incomplete == ()
    assert "Data set" in render.render(table)


def test_the_verdict_counts_leave_mean_ranks_out(tables):
    found = compare.agreement(join(section(), tables, {"Ditto": 1.0}))
    assert found.cells.of == 3


def test_a_missing_column_is_shown_and_nothing_is_ranked_around_it(tables):
    table = join(section(), tables | {"b": "its data are not available"})
    assert {cell.note for cell in table.overall} == {"not ranked"}
    assert table.cell("Ditto", "local", "1").note == "missing"
    assert any("B is b (missing: its data are not available)" in line for line in table.footnotes)
    assert any(line.startswith("Ranks: none") for line in table.footnotes)
    assert not table.title.startswith("PARTIAL")
    assert table.incomplete


def test_a_partial_table_ranks_what_is_there_and_says_so(tables):
    table = join(section(), tables | {"b": "its data are not available"}, partial=True)
    assert table.title == "PARTIAL: Table 1"
    assert [cell.mean for cell in table.overall] == [3.0, 2.0, 1.0]
    assert any("the 2 of 3 data sets with a value of every method" in line for line in table.footnotes)
    assert table.incomplete


def test_partial_is_stamped_on_what_is_partial_only(tables):
    assert join(section(), tables, partial=True).title == "Table 1"


def test_less_is_better_where_it_is(tables):
    losses = {
        name: replace(tables[name], spec=tables[name].spec.model_copy(update={"metric": "loss"})) for name in SCORES
    }
    assert [cell.mean for cell in join(section(), losses).overall] == pytest.approx([4 / 3, 7 / 3, 7 / 3])


def test_the_test_of_the_paper_is_named_as_published(tables):
    (line,) = [line for line in join(section(as_published=True), tables).footnotes if line.startswith("As published")]
    chi2, p = friedman_as_published(METHODS, list(SCORES.values()))
    assert f"chi2(2) = {chi2:.2f}, p = {p:.3g}" in line


def test_a_row_that_one_table_lacks_is_missing_and_one_that_all_lack_is_a_slip(tables):
    rows = [*METHODS, "SCAFFOLD"]
    with pytest.raises(SpecError, match="no table has the row 'SCAFFOLD'"):
        join(section().model_copy(update={"rows": rows}), tables)


def test_values_of_different_kinds_do_not_join(tables):
    with pytest.raises(SpecError, match="different kinds"):
        join(section(), tables | {"b": tables["make"]("b", profile="short")})


def test_a_joint_table_of_a_profile_says_so(tables):
    table = join(section(), {name: tables["make"](name, profile="short") for name in SCORES})
    assert table.title == "Table 1 (short profile)"
    assert table.spec.id == "paper/1-short"


def test_nothing_there_is_a_table_of_holes():
    table = join(section(), dict.fromkeys(SCORES, "not run"))
    assert {cell.state for cell in table.cells} == {"missing"}
