"""Totals over the tables of a page: each printed number once, joint tables left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.report.site.content import Exhibit
from bench.report.site.totals import counted, totals
from bench.report.tables.build import build
from bench.report.tables.joint import join
from bench.report.tables.table import Row, TableSpec
from bench.spec import JointSection, Number

ROWS = (Row("FedAvg", "fedavg", checkpoints=("local",)), Row("Silo", "local", checkpoints=("local",)))
PRINTED = [Number("FedAvg", "local", 0.71, 0.01), Number("Silo", "local", 0.9, 0.01)]


@pytest.fixture
def chosen(choice):
    return {"fedavg": choice([0.71, 0.71], [0.71, 0.71]), "local": choice([0.5, 0.5], [0.5, 0.5])}


@pytest.fixture
def exhibit(chosen):
    def make(name, printed, profile="paper"):
        table = build(TableSpec(name, name, "heart", "accuracy", ROWS, profile=profile), chosen, PRINTED)
        return Exhibit(table, chosen, printed)

    return make


def test_totals_add_up_the_compared_tables(exhibit):
    found = totals([exhibit("1", "1:heart:accuracy"), exhibit("2", "2:heart:accuracy"), exhibit("3", None, "short")])
    assert found.counts == {"agrees": 2, "off": 2}
    assert (found.cells, found.tables, found.numberless) == (4, 2, 0)
    assert tuple(found.orderings) == (0, 2)


def test_the_first_of_two_tables_beside_the_same_printed_numbers_counts(exhibit):
    exhibits = [exhibit("2", "2:heart:accuracy"), exhibit("2-seeds", "2:heart:accuracy")]
    assert counted(exhibits) == exhibits[:1]


def test_a_joint_table_repeats_its_columns(exhibit):
    """PLayer-FL's Table 1 consists of the tables of single data sets."""
    one, two = exhibit("1", "1:heart:accuracy"), exhibit("2", "2:heart:accuracy")
    columns = [{"table": "1", "label": "One"}, {"table": "2", "label": "Two"}]
    section = JointSection(id="both", title="Both", columns=columns, rows=["FedAvg", "Silo"])
    joint = Exhibit(join(section, {"1": one.table, "2": two.table}))
    assert joint.joint
    assert counted([one, two, joint]) == [one, two]
    assert totals([joint]) is None


def test_without_a_compared_table_there_are_no_totals(exhibit):
    assert totals([]) is None
    assert totals([exhibit("1", None, "short")]) is None


def test_an_exhibit_knows_its_id_without_the_profile(exhibit):
    short = exhibit("1", None, "short")
    assert (
        replace(short, table=replace(short.table, spec=short.table.spec.model_copy(update={"id": "1-short"}))).id == "1"
    )
