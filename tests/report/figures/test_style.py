"""Titles, names and keys of figures have the room they need."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from bench.report.figures import line_plots, style
from bench.report.figures.critical_difference import critical_difference
from bench.report.figures.partition_bars import partition
from bench.report.ranks import RankReport


def test_long_titles_are_broken_into_equal_lines_so_that_synthetic_stays_in_sight():
    title = style.wrapped("SYNTHETIC DATA: FENDA-FL, Table 2: Fed-Heart-Disease", style.COLUMN)
    assert title == "SYNTHETIC DATA: FENDA-FL,\nTable 2: Fed-Heart-Disease"
    assert style.wrapped("FENDA-FL, Table 2", style.COLUMN) == "FENDA-FL, Table 2"


def test_bars_differ_by_hatches_once_colours_come_again():
    assert len({(each["facecolor"], each["hatch"]) for each in map(style.face, range(35))}) == 35


@pytest.mark.parametrize("names", [["a"], [f"client number {number}" for number in range(20)]])
def test_nothing_is_cut_off_and_a_long_key_leaves_the_panel_its_height(names):
    title = "A title with enough words to take three lines of a figure as wide as a column of the page"
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(style.COLUMN, 2 + style.height_of(names, 60)), layout="constrained")
        axes = figure.subplots()
        for name in names:
            axes.plot([0, 1], label=name)
        style.name_ticks(axes, names, 60)
        style.heading(figure, title)
        style.key(figure, axes.get_legend_handles_labels()[0])
        figure.savefig(io.BytesIO(), format="png")
    edges = figure.get_tightbbox()
    assert 0 <= edges.x0 < edges.x1 <= style.COLUMN
    assert 0 <= edges.y0 < edges.y1 <= figure.get_figheight()
    assert axes.get_position().height * figure.get_figheight() > 1


NAME = "_$x^2$ \\alpha\x1b"


@pytest.mark.parametrize(
    "draw",
    [
        lambda stem: line_plots.curves({NAME: {NAME: ([1, 2], [[0.5, 0.6]])}}, stem, title=NAME),
        lambda stem: line_plots.trajectories([[0.5], [0.6]], [NAME], stem, title=NAME, what=NAME),
        lambda stem: line_plots.trajectories([[[0.5]], [[0.6]]], [NAME], stem, title=NAME, what=NAME),
        lambda stem: line_plots.layers({NAME: [[1.0, 2.0]]}, [NAME], stem, title=NAME, names=[NAME, "b"]),
        lambda stem: partition([[3, 4]], [NAME], stem, title=NAME),
        lambda stem: critical_difference(
            RankReport((NAME, "b", "c"), 3, np.array([1.0, 2, 3]), 6.0, 0.05, 9.0, 0.01, 1.9, np.full((3, 3), 0.1)),
            stem,
            title=NAME,
        ),
    ],
)
def test_15_5_dollar_signs_in_names_are_shown(draw, tmp_path, monkeypatch):
    texts = []

    def save(figure, *given, **named):
        figure.draw_without_rendering()
        texts.extend(each.get_text() for each in figure.findobj(Text))

    monkeypatch.setattr(Figure, "savefig", save)
    draw(tmp_path / "a")
    shown = [text.replace("\n", " ") for text in texts if "x^2" in text]
    assert shown
    assert not any(map(is_math_text, shown))
    assert all(r"\$x^2\$ \alpha" in text and "\x1b" not in text for text in shown)


def test_a_key_has_as_many_columns_as_fit():
    for name, columns in (("a", 6), ("a name of some twenty letters", 1)):
        figure = Figure(figsize=(style.COLUMN, 2))
        style.key(figure, [Line2D([], [], label=f"{name}{number}") for number in range(6)])
        assert vars(figure.legends[0])["_ncols"] == columns
