"""Tables as text for the terminal, and as html, md, tex and csv files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import jinja2

from bench.files import write_whole
from bench.report.scores import HEADINGS
from bench.report.tables import latex
from bench.report.tables.cell_text import Shown, digits, shown, summary
from bench.report.tables.table import Table
from bench.safe_text import csv_text, one_line, printable_line

FORMS = ("md", "csv", "tex", "html")


def render(table: Table) -> str:
    """Return the table as aligned printable text, one line per cell, followed by its footnotes."""
    heads: tuple[str, ...] = ("Method", "Checkpoint", "Ours", "Normal ±", "Printed", "Difference", "Verdict")
    names = {"all": summary(table)} | {str(number): name for number, name in enumerate(table.clients)}
    lines: list[tuple[str, ...]] = [
        (cell.method, HEADINGS[cell.checkpoint], *shown(cell, digits(table, cell))) for cell in table.shown
    ]
    if table.spec.columns == "clients":
        heads = (*heads[:2], table.spec.block.removesuffix("s").capitalize(), *heads[2:])
        lines = [(*line[:2], names[cell.client], *line[2:]) for line, cell in zip(lines, table.shown, strict=True)]
    columns = [
        [printable_line(word) for word in column] for column in zip(heads, *lines, strict=True) if any(column[1:])
    ]
    widths = [max(map(len, column)) for column in columns]
    text = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    ]
    width = max(80, *map(len, text))
    notes = [textwrap.fill(line, width, subsequent_indent="  ") for line in table.footnotes]
    return "\n".join([table.title, "-" * width, text[0], "-" * width, *text[1:], "-" * width, *notes, ""])


def document(table: Table, form: str) -> str:
    """Return the table as an "html", "md" or "tex" file: methods as rows, checkpoint rules or clients as columns."""
    headings, rows = layout(table)
    template = templates().get_template(f"table.{form}.j2")
    if form != "tex":
        return template.render(table=table, headings=headings, rows=rows)
    return template.render(
        table=table, caption=latex.caption(table), legend=latex.legend(table), **latex.layout(table)._asdict()
    )


def layout(table: Table) -> tuple[list[str], list[tuple[str, list[Shown | None]]]]:
    """Return the headings of the columns, and of each row its name and cells; None where the table has no cell."""
    cells = {(cell.method, cell.checkpoint, cell.client): shown(cell, digits(table, cell)) for cell in table.cells}
    if table.spec.columns == "checkpoints":
        return [HEADINGS[checkpoint] for checkpoint in table.checkpoints], [
            (row.method, [cells.get((row.method, checkpoint, "all")) for checkpoint in table.checkpoints])
            for row in table.spec.rows
        ]
    places = ["all", *map(str, range(len(table.clients)))]
    several = len(table.checkpoints) > 1
    return [summary(table), *table.clients], [
        (
            f"{row.method}, {HEADINGS[checkpoint].lower()}" if several else row.method,
            [cells.get((row.method, checkpoint, place)) for place in places],
        )
        for row in table.spec.rows
        for checkpoint in row.checkpoints
    ]


def write(table: Table, stem: Path, forms: Iterable[str] = FORMS) -> list[Path]:
    """Write ``stem``.md, .csv, .tex and .html, each whole or not at all; return the paths."""
    return [write_whole(stem.with_name(f"{stem.name}.{form}"), content(table, form)) for form in forms]


def content(table: Table, form: str) -> bytes:
    """Return the content of the file of this form."""
    return (csv_text(table.frame()) if form == "csv" else document(table, form)).encode()


@cache
def templates() -> jinja2.Environment:
    """Return the templates of tables and of the report; HTML templates escape all values."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, Path(__file__).parents[1] / "site"]),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "latex": latex.escape,
        "markdown": _markdown,
        "label": lambda name: re.sub("[^A-Za-z0-9]+", "-", name),
    }
    return environment


def _markdown(text: str) -> str:
    """Return ``text`` as Markdown that shows it: no markup, no HTML, and no image, which would be loaded.

    An underscore between letters or digits is no markup.
    """
    return re.sub(r"([\\|*<>`\[$~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", one_line(text))
