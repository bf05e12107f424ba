"""Intervals stay where values can lie."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from bench.report.figures import bar_charts, client_bars, line_plots
from bench.report.figures.intervals import band, span
from bench.report.scores import bounds
from bench.report.site.interval_plot import IntervalPlot
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec

SHARE = (0.0, 1.0)


@pytest.mark.parametrize(
    ("mean", "radius", "limits", "ends"),
    [
        (0.9, 0.2, SHARE, (0.7, 1.0)),
        (0.1, 0.2, SHARE, (0.0, 0.3)),
        (0.5, None, SHARE, (0.5, 0.5)),
        (2.0, 3.0, (0.0, math.inf), (0.0, 5.0)),
        (1.2, 0.5, SHARE, (0.7, 1.2)),  # a mean outside the bounds is still shown
    ],
)
def test_an_interval_is_cut_off_at_the_bounds(mean, radius, limits, ends):
    assert span(mean, radius, limits) == pytest.approx(ends)


def test_a_band_is_cut_off_at_the_bounds():
    low, high = band([0.9, 0.1], [0.2, None], bounds("accuracy"))
    assert low == pytest.approx([0.7, 0.1])
    assert high == pytest.approx([1.0, 0.1])
    assert bounds("loss") == (0.0, math.inf)


@pytest.fixture
def table(choice):
    """Accuracies near 0 and 1 with wide intervals."""
    rows = tuple(Row(name, name, checkpoints=("local",)) for name in ("low", "high"))
    chosen = {"low": choice([0.0, 0.0], [0.1, 0.1]), "high": choice([0.9, 0.9], [1.0, 1.0])}
    return build(TableSpec("t", "T", "heart", "accuracy", rows, silo=None), chosen)


def test_error_bars_of_a_share_stay_within_0_and_1(table, monkeypatch, tmp_path):
    drawn = []
    for module in (bar_charts, client_bars):
        monkeypatch.setattr(module, "save", lambda figure, stem: drawn.append(figure) or [])
    bar_charts.bars([table], tmp_path / "a", title="A")
    client_bars.client_bars(table, tmp_path / "b", title="B")
    ends = [y for figure in drawn for y in heights(figure)]
    assert len(ends) == 4 + 8
    assert (min(ends), max(ends)) == (0.0, 1.0)


def heights(figure: Figure) -> list[float]:
    """Ends of all error bars."""
    bars = [
        segment
        for axes in figure.axes
        for container in axes.containers
        if type(container).__name__ == "ErrorbarContainer"
        for line in container[2]
        for segment in line.get_segments()
    ]
    return [float(y) for segment in bars for y in segment[:, 1]]


def test_learning_curves_of_a_share_stay_within_0_and_1(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(line_plots, "save", lambda figure, stem: drawn.append(figure) or [])
    runs = ([1, 2], [[0.1, 0.9], [0.0, 1.0]])
    line_plots.curves({"test accuracy": {"A": runs}, "validation loss": {"A": runs}}, tmp_path / "a", title="A")
    share, loss = (axes.collections[0].get_paths()[0].vertices[:, 1] for axes in drawn[0].axes)
    assert (share.min(), share.max()) == (0.0, 1.0)
    assert loss.min() == 0.0
    assert loss.max() > 1.0


def test_intervals_of_the_report_stay_within_0_and_1(table):
    axis = IntervalPlot.of(table)
    assert (axis.low, axis.high) == (0.0, 1.0)
    assert axis.span(0.95, 0.6) == (axis.x(0.35), axis.x(1.0))
