"""Hostile names of clients, methods, titles and files: none controls a terminal, a spreadsheet, a page or LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.report.site import markdown
from bench.report.tables.latex import escape
from bench.safe_text import FORMULA, UNPRINTABLE

NAMES = (
    "=cmd|' calc'!A0",
    "@SUM(1+1)",
    "-2+3",
    "+1+1",
    "$x^2$ and $",
    "![a](https:example.org)",
    "<img src=x onerror=alert(1)>",
    "\\textbf{a} & b_c %~^#`\"'",
    "\x1b[2J\x1b]0;t\x07",
    "\u202egnp.\u2066\u200b\x9b31m",
    "_hidden",
)
STUDY = """
title = "Names $a$ ![t](https://example.org/t.png)"
seeds = [1, 2]
[data]
name = "from_csv"
path = {path}
target = "ill"
[budget]
rounds = 2
local_steps = 2
batch_size = 4
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
[methods.local]
model = "logistic"
fixed.lr = 0.1
[[tables]]
id = "names"
metric = "accuracy"
columns = "clients"
silo = "![m](http://example.org/m.png)"
title = "=1+1 <b>$t$</b>"
rows = [
  {{ method = "=HYPERLINK(1)", of = "fedavg", checkpoints = ["local"] }},
  {{ method = "![m](http://example.org/m.png)", of = "local", checkpoints = ["local"] }},
]
"""
FIGURES = "".join(
    f'[[figures]]\nid = "names-{kind}"\nkind = "{kind}"\ntitle = "$x$ {kind} $y$"\n{of}\n'
    for kind, of in {
        "bars": 'tables = ["names"]',
        "heatmap": 'table = "names"',
        "clients": 'table = "names"',
        "cd": 'table = "names"',
    }.items()
)


@pytest.fixture
def study(silobench, tmp_path: Path) -> Path:
    """A study on sites whose files have hostile names."""
    room = np.random.default_rng(0)
    for name in NAMES:
        rows = "".join(f"{a:.3f},{b:.3f},{(a + b > 0) + 0}\n" for a, b in room.normal(size=(20, 2)))
        file = tmp_path / "sites" / f"{name}.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"a,b,ill\n{rows}")
    place = tmp_path / "study.toml"
    place.write_text(STUDY.format(path=json.dumps(str(tmp_path / "sites"))) + FIGURES)
    return place


def assert_printable(text: str) -> None:
    found = {letter for letter in text if letter not in "\n\t" and unicodedata.category(letter) in UNPRINTABLE}
    assert not found, found


@pytest.mark.slow
def test_15_5_names_do_no_harm_anywhere(study, silobench, monkeypatch, tmp_path):
    drawn: list[Text] = []
    monkeypatch.setattr(Figure, "savefig", _texts(Figure.savefig, drawn))

    outputs = []
    for arguments in (
        ("data", "prepare", "from_csv", f"path={tmp_path / 'sites'}", "target=ill"),
        ("plan", study),
        ("sweep", study, "--out", "tables"),
        ("status", study),
        ("runs",),
        ("runs", "--csv"),
        ("export", "--to", "csv", "exported"),
        ("report", study, "--out", "again"),
    ):
        status, out, err = silobench(*arguments)
        assert status == 0, (arguments, err)
        outputs += [out, err]
    run = json.loads(silobench("runs", "--json")[1])[0]["run"]
    for options in ((), ("--json",), ("--spec", "toml")):
        status, out, _ = silobench("show", run, *options)
        assert status == 0
        outputs.append(out)
        if options == ("--json",):
            assert set(NAMES) <= set(json.loads(out)["clients"])
    for text in outputs:
        assert_printable(text)

    cells = 0
    for file in [*tmp_path.rglob("tables/**/*.csv"), *tmp_path.rglob("exported/*.csv")]:
        for row in csv.reader(io.StringIO(file.read_text())):
            for cell in row:
                cells += 1
                assert not cell.startswith(FORMULA) or re.fullmatch(r"[-+]?[\d.e+-]+|-inf", cell), (file, cell)
    pages = [*tmp_path.rglob("*.md")]
    for file in pages:
        assert "<img" not in MarkdownIt("gfm-like", {"linkify": False}).render(file.read_text())
    sites = [*tmp_path.rglob("*.html")]
    assert sites
    for file in sites:
        tags = Tags()
        tags.feed(file.read_text())
        assert not {"iframe", "object", "embed", "base"} & {tag for tag, _ in tags.seen}
        assert all(value.startswith(("data:", "#")) for _, values in tags.seen for value in loaded(values))
        assert not [name for _, values in tags.seen for name in values if name.startswith("on")]
    hostile = [text for text in drawn if "$" in text.get_text()]
    assert hostile
    assert not [text.get_text() for text in drawn if is_math_text(text.get_text())]
    print(
        f"{len(NAMES)} names: {len(outputs)} outputs, {cells} csv cells, {len(pages)} Markdown files, "
        f"{len(sites)} pages, {len(drawn)} texts in figures"
    )


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, {name: value or "" for name, value in attrs}))


def loaded(values: dict[str, str]) -> list[str]:
    """Return the addresses that a browser loads by itself."""
    return [values[name] for name in ("src", "srcset", "poster", "background") if name in values]


def _texts(savefig, drawn: list[Text]):
    def save(figure, *given, **named):
        savefig(figure, *given, **named)
        drawn.extend(each for each in figure.findobj(Text) if each.get_text())

    return save


def test_15_5_error_messages_are_printable(silobench, tmp_path):
    bad = tmp_path / "\x1b[2J\u202e.toml"
    bad.write_text('title = "\\u001b[2J"\n"\\u202e\\u001b" = 1')
    calls = [("plan", tmp_path / name) for name in NAMES[4:6]] + [("plan", bad), ("show", NAMES[8]), (NAMES[9],)]
    for arguments in calls:
        status, out, err = silobench(*arguments)
        assert status
        assert_printable(out + err)
        assert len(err.splitlines()) == 1
    print(f"{len(calls)} error messages")


@pytest.mark.slow
def test_15_5_latex_prints_hostile_names(program, tmp_path):
    latex = program("pdflatex")
    rows = "\n".join(rf"{escape(name)} & {escape(name)} \\" for name in NAMES)
    text = rf"\documentclass{{article}}\begin{{document}}\begin{{tabular}}{{ll}}{rows}\end{{tabular}}\end{{document}}"
    (tmp_path / "names.tex").write_text(text)
    command = [latex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "names"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert run.returncode == 0, run.stdout[-2000:]
    print(f"{len(NAMES)} names set by LaTeX")


def test_15_5_markdown_of_pages_loads_nothing():
    text = '![a](https://e.org/a.png) [![b](http://e.org/b.png)](https://e.org) ![c][d] <img src="https://e.org/e.png">'
    more = "\n\n[d]: https://e.org/d.png\n\n<script>x</script>\n\n[f](javascript:alert(1)) [g](data:text/html,x)\n"
    page = markdown.html(text + more)
    assert not re.search(r"<img|<script|src=|href=\"(?!https?://)", page.replace("&lt;img src=", ""))
    print("0 images, scripts and foreign addresses of 8")
