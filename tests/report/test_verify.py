"""Own records against published ones: single runs, cells of tables, and the verdict over both."""

from __future__ import annotations

import pytest

from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.report.verify import Verification, compare_runs, compare_tables, render

SPEC = TableSpec(
    "paper/1",
    "Table 1",
    "heart",
    "accuracy",
    (Row("MOON", "moon", checkpoints=("local",)), Row("Silo", "silo", checkpoints=("local",))),
)


def table(choice, moon, silo=(0.7, 0.7)):
    """Means over two clients, one for each seed."""
    chosen = {"moon": choice(*[[each, each] for each in moon]), "silo": choice(*[[each, each] for each in silo])}
    return build(SPEC, chosen)


def test_a_cell_passes_within_both_intervals_or_the_tolerance(choice):
    published = table(choice, (0.70, 0.74))
    for moon, tolerance, within in (
        ((0.70, 0.72), 0.0, True),  # wide intervals overlap
        ((0.51, 0.51), 0.01, True),  # the published radius is 0.254
        ((0.40, 0.40), 0.01, False),
        ((0.40, 0.40), 0.35, True),
    ):
        ours, silo = compare_tables(table(choice, moon), published, tolerance)
        assert (ours.method, ours.within) == ("MOON", within)
        assert (silo.difference, silo.within) == (0.0, True)


def test_a_cell_that_only_one_side_can_fill_does_not_pass(choice):
    published = table(choice, (0.70, 0.74))
    ours = build(SPEC, {"moon": choice([0.7, 0.7], None), "silo": choice([0.7, 0.7])})
    assert [cell.within for cell in compare_tables(ours, published, 1.0)] == [False, True]
    assert [cell.within for cell in compare_tables(ours, ours, 1.0)] == [True, True]


@pytest.fixture
def runs(record):
    def make(score=0.7, **more):
        spec = {"algorithm": {"name": "moon"}, "seed": 3}
        return {"a": record([score, score], spec=spec, aggregated=[0.6, None, 0.5], parameters=14) | more}

    return make


def test_runs_in_both_stores_are_compared_quantity_by_quantity(runs):
    rows = {row.quantity: row for row in compare_runs(runs(0.72), runs(0.70) | {"b": {}}, 0.01)}
    assert rows["local accuracy"].difference == pytest.approx(0.02)
    assert not rows["local accuracy"].within
    assert rows["validation loss"].ours == 0.5
    assert rows["validation loss"].within
    assert (rows["local accuracy"].algorithm, rows["local accuracy"].seed) == ("moon", 3)


def test_counted_quantities_must_be_equal(runs, choice):
    rows = tuple(compare_runs(runs(parameters=15), runs(), 10.0))
    assert [row.quantity for row in rows if not row.within] == ["parameters"]
    same = table(choice, (0.70, 0.74))
    cells = tuple(compare_tables(same, same, 0.0))
    assert not Verification(rows, cells, (), 10.0).passed
    assert Verification(tuple(compare_runs(runs(0.9), runs(), 0.01)), cells, (), 0.01).passed


def test_the_text_names_what_differs(runs, choice):
    cells = tuple(compare_tables(table(choice, (0.40, 0.40)), table(choice, (0.72, 0.72)), 0.01))
    text = render(Verification(tuple(compare_runs(runs(0.72), runs(), 0.01)), cells, ("paper/2",), 0.01))
    assert "paper/1: 1 of 2 cells pass; the largest difference is -0.3200 (MOON, local)." in text
    assert "  MOON, local: ours 0.4000 ± 0.0000, published 0.7200 ± 0.0000; at most 0.0100 is allowed" in text
    assert "Runs: 1 are in both stores, 0 of them equal; 1 differ by more than the tolerance" in text
    assert "1 published tables" in text
