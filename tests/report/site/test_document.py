"""Files of the report site, without a browser."""

from __future__ import annotations

import pytest

from bench.report.site import document
from bench.report.site.content import Exhibit, Page
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number
from bench.types import SpecError

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def exhibit(choice, record):
    spec = {"data": {"fingerprint": "f", "name": HOSTILE}, "seed": 1}
    run = record([0.7, 0.8], spec=spec, path="stack", versions={"torch": "2"})
    table = TableSpec("paper/1", "Table 1", HOSTILE, "accuracy", (Row("FedAvg", "fedavg", checkpoints=("local",)),))
    chosen = {"fedavg": choice(run)}
    return Exhibit(build(table, chosen, [Number("FedAvg", "local", 0.75)]), chosen)


def test_two_pages_with_one_file_name_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(SpecError, match=r"'a b' and 'a/b' would both be written to a-b\.html"):
        document.write(document.documents([Page("a b", "One"), Page("a/b", "Other")]), tmp_path / "report")
    with pytest.raises(SpecError, match=r"index\.html"):
        document.write(document.documents([Page("index", "One")]), tmp_path / "report")
    assert list(tmp_path.iterdir()) == []


def test_a_report_repeats_byte_for_byte(exhibit, tmp_path):
    made = [Page("paper", "A paper", (exhibit,), notes="# Notes")]
    first, second = (document.write(document.documents(made), tmp_path / name) for name in ("one", "other"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert [file.name for file in first] == ["index.html", "paper.html"]


def test_pages_answer_escape_names_and_load_nothing(exhibit, tmp_path):
    overview, paper, _ = document.write(
        document.documents([Page("paper", HOSTILE, (exhibit,)), Page("none", "None")]), tmp_path
    )
    text = overview.read_text()
    assert "<b>1 of 1</b> cells agree" in text
    assert 'Without records: <a href="none.html">none</a>' in text
    for file in (overview, paper):
        text = file.read_text()
        assert HOSTILE not in text
        assert 'src="http' not in text
        assert "default-src &#39;none&#39;" in text


def test_the_navigation_links_to_kept_pages_of_an_earlier_report():
    made = document.documents([Page("paper", "A paper")], ["mine.html", "a:<b>.html"])
    assert made.keys() == {"index.html", "paper.html"}
    for text in made.values():
        assert '<li><a href="mine.html">mine</a></li>' in text
        assert '<li><a href="a%3A%3Cb%3E.html">a:&lt;b&gt;</a></li>' in text
