"""A table as text for the terminal, and as files: html, md and tex from one template each, and csv."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2

from bench.files import write_whole
from bench.report.scores import HEADINGS
from bench.report.tables.table import Cell, Table

FORMS = ("md", "csv", "tex", "html")
CAPITAL = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
SMALL = "alpha beta gamma delta zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$", "<": "$<$", ">": "$>$", "|": "$|$"}
    | {"−": "$-$", "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "ε": r"$\varepsilon$"}
    | {letter: f"$\\{name}$" for letter, name in zip("αβγδζηθικλμνξπρστυφχψω", SMALL.split(), strict=True)}
    | {letter: f"$\\{name}$" for letter, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", CAPITAL.split(), strict=True)}
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
    heads: tuple[str, ...] = ("Method", "Checkpoint", "Ours", "Normal ±", "Printed", "Difference", "Verdict")
    names = {"all": summary(table)} | {str(number): name for number, name in enumerate(table.clients)}
    lines: list[tuple[str, ...]] = [
        (cell.method, HEADINGS[cell.checkpoint], *shown(cell, digits(table, cell))) for cell in table.shown
    ]
    if table.spec.columns == "clients":
        heads = (*heads[:2], table.spec.block.removesuffix("s").capitalize(), *heads[2:])
        lines = [(*line[:2], names[cell.client], *line[2:]) for line, cell in zip(lines, table.shown, strict=True)]
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
    """The table as one "html", "md" or "tex" file: methods as rows, checkpoint rules or clients as columns."""
    headings, rows = layout(table)
    return (
        templates()
        .get_template(f"table.{form}.j2")
        .render(
            table=table,
            headings=headings,
            rows=rows,
            printed=any(cell.printed is not None for cell in table.shown),
            marks=MARKS,
        )
    )


def layout(table: Table) -> tuple[list[str], list[tuple[str, list[Shown | None]]]]:
    """The headings of a table's columns, and of each row its name and cells, None where nothing is to show."""
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


def summary(table: Table) -> str:
    """What the cells over all clients are called where clients are columns."""
    return "Mean" if table.spec.summary == "mean" else "Mean rank"


def digits(table: Table, cell: Cell) -> int:
    """The decimals that a cell is shown with."""
    return 2 if table.spec.summary == "rank" and cell.client == "all" else table.spec.digits


def write(table: Table, stem: Path, forms: Iterable[str] = FORMS) -> list[Path]:
    """Write ``stem``.md, .csv, .tex and .html, each whole or not at all; returns the paths."""
    return [write_whole(stem.with_name(f"{stem.name}.{form}"), content(table, form)) for form in forms]


def content(table: Table, form: str) -> bytes:
    """What the file of this form holds."""
    text = table.frame().to_csv(index=False, lineterminator="\n") if form == "csv" else document(table, form)
    return text.encode()


@cache
def templates() -> jinja2.Environment:
    """The templates of tables and of the report; those of HTML escape whatever they are given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, Path(__file__).parents[1] / "site"]),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "latex": _latex,
        "markdown": _markdown,
        "label": lambda name: re.sub("[^A-Za-z0-9]+", "-", name),
    }
    return environment


def _latex(text: str) -> str:
    quoted = re.sub('"([^"]*)"', r"``\1''", _one_line(text).translate(LATEX))
    return re.sub(r"^[*\[]", r"{\g<0>}", quoted)  # else the end of the row before would take it for its own


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*<>`])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    """``text`` without line breaks and other control characters, which would end a row."""
    return " ".join("".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in text).split())
