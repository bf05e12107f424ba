"""Descriptions of figures for readers who cannot see them."""

from __future__ import annotations

from bench.report.site.descriptions import describe
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import BarsSection, CurvesSection

NAMES = {"FedAvg": "a", "FENDA-FL": "b", "Silo": "c"}
ROWS = tuple(Row(name, key, checkpoints=("local",)) for name, key in NAMES.items())


def test_a_bar_chart_names_its_highest_and_lowest_bar_and_its_line(choice):
    chosen = {"a": choice([0.4, 0.5]), "b": choice([0.90, 0.92]), "c": choice([0.5, 0.6])}
    table = build(TableSpec("t", "T", "heart", "accuracy", ROWS), chosen)
    bars = BarsSection(id="b", title="B", kind="bars", tables=["t"])
    assert describe(bars, [table]) == (
        "Bar chart of accuracy with 2 bars: highest FENDA-FL at 0.910, lowest FedAvg at 0.450; "
        "dashed line Silo at 0.550."
    )


def test_learning_curves_are_described_by_their_methods():
    rows = [{"method": "APPLE", "of": "apple"}, {"method": "FedAvg", "of": "fedavg"}]
    curves = CurvesSection(id="c", title="C", kind="curves", scores=["accuracy"], rows=rows)
    assert describe(curves, []) == "Learning curves over rounds, mean and spread over runs, of APPLE, FedAvg."
