"""Titles, names and keys of figures have the room they need."""

from __future__ import annotations

import io

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.report.figures import style


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


def test_a_key_has_as_many_columns_as_fit():
    for name, columns in (("a", 6), ("a name of some twenty letters", 1)):
        figure = Figure(figsize=(style.COLUMN, 2))
        style.key(figure, [Line2D([], [], label=f"{name}{number}") for number in range(6)])
        assert vars(figure.legends[0])["_ncols"] == columns
