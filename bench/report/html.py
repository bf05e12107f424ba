"""A table as text for the terminal, and as files: html, md and tex from one template each, and csv."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2

from bench.files import write_whole
from bench.report.tables import HEADINGS, Cell, Table

FORMS = ("md", "csv", "tex", "html")
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$", "<": "$<$", ">": "$>$", "|": "$|$"}
)
MARKS = {"same side": r"^\dagger", "off": r"^\ddagger"}


class Shown(NamedTuple):
    """A cell in words, rounded; empty where there is nothing to say."""

    ours: str
    normal: str
    printed: str
    difference: str
    verdict: str


def shown(cell: Cell, digits: int) -> Shown:
    """``cell`` as a reader sees it; its state takes the place of a number."""
    normal = "" if cell.normal95 is None else f"{cell.normal95:.{digits}f}"
    printed = _number(cell.printed, cell.printed_ci95, cell.printed_above_silo, digits)
    if cell.mean is None:
        return Shown(cell.note, "", printed, "", "")
    # Rounding first and adding zero keeps "-0.000" out.
    gap = "" if cell.printed is None else f"{round(cell.mean - cell.printed, digits) + 0.0:+.{digits}f}"
    return Shown(_number(cell.mean, cell.ci95, cell.above_silo, digits), normal, printed, gap, cell.verdict)


def _number(mean: float | None, radius: float | None, starred: bool, digits: int) -> str:
    if mean is None:
        return ""
    spread = "" if radius is None else f" ± {radius:.{digits}f}"
    return f"{mean:.{digits}f}{spread}{'*' * starred}"


def render(table: Table) -> str:
    """The table as aligned plain text, one line per cell, followed by its foot."""
    heads = ("Method", "Checkpoint", "Ours", "Normal ±", "Printed", "Difference", "Verdict")
    lines = [(cell.method, HEADINGS[cell.checkpoint], *shown(cell, table.spec.digits)) for cell in table.overall]
    columns = [column for column in zip(heads, *lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    text = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    ]
    width = max(80, *map(len, text))
    foot = [textwrap.fill(line, width, subsequent_indent="  ") for line in table.foot]
    return "\n".join([table.title, "-" * width, text[0], "-" * width, *text[1:], "-" * width, *foot, ""])


def document(table: Table, form: str) -> str:
    """The table as one "html", "md" or "tex" file: methods as rows, checkpoint rules as columns."""
    digits = table.spec.digits
    cells = {(cell.method, cell.checkpoint): shown(cell, digits) for cell in table.overall}
    return (
        _templates()
        .get_template(f"table.{form}.j2")
        .render(
            table=table,
            headings=[HEADINGS[checkpoint] for checkpoint in table.checkpoints],
            rows=[
                (row.method, [cells.get((row.method, checkpoint)) for checkpoint in table.checkpoints])
                for row in table.spec.rows
            ],
            printed=any(cell.printed is not None for cell in table.overall),
            marks=MARKS,
        )
    )


def write(table: Table, stem: Path, forms: Iterable[str] = FORMS) -> list[Path]:
    """Write ``stem``.md, .csv, .tex and .html, each whole or not at all; returns the paths."""
    paths = []
    for form in forms:
        text = table.frame().to_csv(index=False, lineterminator="\n") if form == "csv" else document(table, form)
        paths.append(write_whole(stem.with_name(f"{stem.name}.{form}"), text.encode()))
    return paths


@cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["latex"] = lambda text: re.sub('"([^"]*)"', r"``\1''", text.translate(LATEX))
    templates.filters["markdown"] = lambda text: re.sub(r"([\\|*<>`])", r"\\\1", text)
    return templates
