"""A file is better than a new one if it shows a result that the new one lacks."""

from __future__ import annotations

import random

import pytest

from bench.rebuild import shown
from bench.report.site import document
from bench.report.site.content import Exhibit, Page
from bench.report.tables import render
from bench.report.tables.table import Cell, Row, Table, TableSpec


def table(**means: float | None) -> Table:
    rows = tuple(Row(name, name, checkpoints=("latest",)) for name in means)
    spec = TableSpec("paper/1", "One", "digits", "accuracy", rows, silo=None)
    return Table(spec, tuple(Cell(name, "latest", mean=mean) for name, mean in means.items()), (), synthetic=False)


def page(made: Table) -> dict[str, str]:
    return document.documents([Page("paper", "A paper", (Exhibit(made),))])


BOTH, ONE = table(ditto=0.5, local=0.25), table(ditto=0.75, local=None)


@pytest.mark.parametrize(("old", "new", "better"), [(BOTH, ONE, True), (ONE, BOTH, False), (BOTH, BOTH, False)])
def test_a_file_with_a_number_that_the_new_one_lacks_is_better(tmp_path, old, new, better):
    file = tmp_path / "1.csv"
    assert not shown.better_table(file, render.content(new, "csv").decode())
    file.write_bytes(render.content(old, "csv"))
    assert shown.better_table(file, render.content(new, "csv").decode()) == better
    document.write(page(old), tmp_path)
    expected = ["paper.html", "index.html"] if better else []
    assert shown.better_pages(tmp_path, page(new), set()) == expected


def test_numbers_of_incomplete_tables_and_pages_that_are_gone_do_not_count(tmp_path):
    document.write(page(BOTH), tmp_path)
    for new, incomplete in ((page(BOTH), {"paper/1"}), ({}, set())):
        assert shown.better_pages(tmp_path, new, incomplete) == ["paper.html", "index.html"]


def test_figures_are_results():
    assert shown.in_page('<figure id="figure-paper%2F3"></figure><figure></figure>') == {("paper/3",)}


def test_damaged_files_raise_no_error():
    draw, whole = random.Random(1), page(BOTH)["paper.html"]
    assert shown.in_page(whole) == {("paper/1", "ditto", "latest", "all"), ("paper/1", "local", "latest", "all")}
    address = whole.index("data:text/csv")
    for _ in range(200):
        place = draw.randrange(address, address + 300)
        assert shown.in_page(whole[:place] + draw.choice('\0"=<,') + whole[place + draw.randrange(9) :]) is not None
        assert shown.in_page(whole[:place]) is not None
    assert shown.in_table('mean\n"' + "1" * 200_000) == set()
