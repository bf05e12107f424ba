from __future__ import annotations

import csv
import os
import re
from html import escape
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from bench.files import write_whole
from bench.report.tables.build import build
from bench.report.tables.render import document, render, write
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number

NASTY = "A_b & 50 % <c> | #1"
ROWS = (
    Row(NASTY, "fedavg"),
    Row("FENDA-FL", "fenda", checkpoints=("local",)),
    Row("Silo", "local", checkpoints=("local",)),
)
SPEC = TableSpec("fenda/2-heart", "Table 2", "heart", "accuracy", ROWS, notes=("Seeds differ.",))
PRINTED = [
    Number(NASTY, "global", 0.7001, 0.0),
    Number("FENDA-FL", "local", 0.815, 0.002),
    Number("Silo", "local", 0.748, 0.0),
]


@pytest.fixture
def chosen(choice):
    return {
        "fedavg": choice([0.70, 0.70], [0.70, 0.70]),
        "fenda": choice([0.88, 0.90], [0.90, 0.90]),
        "local": choice([0.74, 0.76], [0.76, 0.76]),
    }


@pytest.fixture
def table(chosen):
    return build(SPEC, chosen, PRINTED)


def test_the_terminal_shows_a_line_per_cell(table):
    lines = render(table).splitlines()
    assert lines[0] == "Table 2"
    assert lines[2].split() == ["Method", "Checkpoint", "Ours", "Normal", "±", "Printed", "Difference", "Verdict"]
    first, _, fenda, silo = lines[4:8]
    # Ours is .7000 and printed .7001: too near for three digits, and never "-0.000".
    assert first.endswith("0.700 ± 0.000   +0.000      same side")
    assert re.search(r"0\.895 ± 0\.064\* +0\.010 +0\.815 ± 0\.002\* +\+0\.080 +same side$", fenda)
    assert silo.endswith("+0.007      agrees")
    assert lines[-1] == "Seeds differ."


def test_columns_without_content_are_not_shown(chosen):
    assert "Printed" not in render(build(SPEC, chosen)).splitlines()[2]


@pytest.mark.parametrize("form", ["md", "tex", "html"])
def test_a_lost_run_shows_its_count_and_no_number(chosen, choice, form):
    broken = build(SPEC, chosen | {"fenda": choice(None, [0.9, 0.9])}, PRINTED)
    line = next(line for line in render(broken).splitlines() if line.startswith("FENDA-FL"))
    assert "missing 1/2" in line
    assert "+" not in line
    text = document(broken, form)
    assert "missing 1/2" in text
    assert "0.90" not in text


class Page(HTMLParser):
    """Start tags with their attributes, and the words between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_and_asks_nobody_for_anything(table):
    text = document(table, "html")
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not {"src", "href"} & {name for _, attributes in page.tags for name in attributes}
    assert "url(" not in text
    assert "@import" not in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    assert "prefers-color-scheme: dark" in text


def test_the_page_can_be_read_aloud(table):
    page = Page(document(table, "html"))
    assert ("html", {"lang": "en"}) in page.tags
    assert [attributes["scope"] for tag, attributes in page.tags if tag == "th"] == ["col"] * 3 + ["row"] * 3
    assert ("caption", {"id": "caption"}) in page.tags
    assert NASTY in page.words  # escaped once, not twice


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_ink_is_readable_in_light_and_dark(table):
    """WCAG 2.1, 1.4.3: text wants a contrast of at least 4.5 to 1."""
    text = document(table, "html").replace("#fff;", "#ffffff;")
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", line)) for line in re.findall(r":root \{.*\}", text))
    for colours in (light, dark):
        for ink in ("ink", "soft", "good", "near", "bad"):
            bright, dim = sorted((luminance(colours[ink]), luminance(colours["paper"])), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_markdown_rows_all_have_the_columns_of_the_head(table):
    rows = [line for line in document(table, "md").splitlines() if line.startswith("|")]
    assert rows[0] == "| Method | Server (global) | Local |"
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert rows[3] == r"| FENDA-FL | – | 0.895 ± 0.064\*<br>printed 0.815 ± 0.002\*<br>+0.080, same side |"


@pytest.mark.parametrize("title", ["$x$ ~~y~~ &copy; _z_ a_b", "**a** `b` [c](d) <e> f | g \\ _", "_a_b_ __c__ $$d$$"])
def test_markdown_shows_titles_as_they_are(chosen, title):
    text = document(build(SPEC.model_copy(update={"title": title}), chosen), "md")
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert page.splitlines()[0] == f"<h2>{escape(title)}</h2>"
    assert "$" not in re.sub(r"\\.", "", text)  # GitHub shows mathematics between dollar signs


def test_latex_is_escaped_and_every_row_fills_the_tabular(table):
    text = document(table, "tex")
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    assert r"A\_b \& 50 \% $<$c$>$ $|$ \#1" in body
    columns = len(re.search(r"\\begin\{tabular\}\{(l+)\}", text)[1])
    rows = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(rows) == 1 + sum(len(row.checkpoints) for row in ROWS)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert not re.search(r"(?<!\\)[#%](?! Needs)", text)
    assert r"$+0.080^\dagger$" in text
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "table"), ("begin", "tabular"), ("end", "tabular"),
        ("begin", "minipage"), ("end", "minipage"), ("end", "table"),
    ]  # fmt: skip


def test_the_four_files_are_written_and_repeat_byte_for_byte(table, tmp_path):
    paths = write(table, tmp_path / "fenda" / "2.heart")
    assert [path.name for path in paths] == ["2.heart.md", "2.heart.csv", "2.heart.tex", "2.heart.html"]
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write(table, tmp_path / "fenda" / "2.heart")] == before
    assert sorted((tmp_path / "fenda").iterdir()) == sorted(paths)


def test_the_csv_keeps_every_digit(table, tmp_path):
    (path,) = write(table, tmp_path / "table", forms=["csv"])
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    fenda = next(row for row in rows if (row["method"], row["client"]) == ("FENDA-FL", "all"))
    cell = table.cell("FENDA-FL", "local")
    assert (float(fenda["mean"]), float(fenda["ci95"]), fenda["n_seeds"]) == (cell.mean, cell.ci95, "2")
    assert (fenda["printed"], fenda["printed_ci95"], fenda["verdict"]) == ("0.815", "0.002", "same side")


def test_digits_follow_the_table(chosen):
    assert "0.8950 ± 0.0635" in render(build(SPEC.model_copy(update={"digits": 4}), chosen))


def test_a_full_disk_leaves_the_old_file_and_no_scraps(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "table.md", b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
