"""LaTeX of tables: escaped texts, columns without empty halves, and the best number of each column in bold."""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.report.scores import HEADINGS
from bench.report.tables.cell_text import Shown, digits, shown, summary
from bench.report.tables.table import Cell, Table
from bench.safe_text import one_line

CAPITAL = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
SMALL = "alpha beta gamma delta zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\`{}"}
    | {"±": r"$\pm$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$", "<": "$<$", ">": "$>$", "|": "$|$"}
    | {"−": "$-$", "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "ε": r"$\varepsilon$"}
    | {letter: f"$\\{name}$" for letter, name in zip("αβγδζηθικλμνξπρστυφχψω", SMALL.split(), strict=True)}
    | {letter: f"$\\{name}$" for letter, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", CAPITAL.split(), strict=True)}
)
MARKS = {"same side": r"^\dagger", "off": r"^\ddagger"}


class Column(NamedTuple):
    """A column of numbers; with ``printed``, the printed numbers and the differences have columns beside it."""

    heading: str
    printed: bool


class LatexCell(NamedTuple):
    """The LaTeX of a cell: our number, the printed one, and their difference."""

    ours: str
    printed: str
    difference: str


class Layout(NamedTuple):
    """The columns, and of each row the label and a cell per column; None where the table has no cell."""

    columns: list[Column]
    rows: list[tuple[str, list[LatexCell | None]]]


def layout(table: Table) -> Layout:
    """Return the rows and columns of a table.

    Checkpoint rules are columns if every method has every one of them. Otherwise each has a row of its own, so that no
    column is half empty. Printed numbers have columns only beside columns that contain some.
    """
    places = _places(table)
    cells = {(cell.method, cell.checkpoint, cell.client): cell for cell in table.cells}
    grid = [(label, [cells.get(place) for place in row]) for label, row in places.rows]
    printed = [
        any(row[number] is not None and row[number].printed is not None for _, row in grid)  # type: ignore[union-attr]
        for number in range(len(places.headings))
    ]
    best = [_best(table, [row[number] for _, row in grid]) for number in range(len(places.headings))]
    rows = [
        (escape(label), [_cell(table, cell, best[number]) for number, cell in enumerate(row)]) for label, row in grid
    ]
    return Layout([Column(escape(name), has) for name, has in zip(places.headings, printed, strict=True)], rows)


def caption(table: Table) -> str:
    """Return the caption: the title, what the numbers are, and what bold type means."""
    spec = table.spec
    what = {
        "mean": " or ".join(dict.fromkeys(spec.metric_of(row).replace("_", " ") for row in spec.rows)),
        "fairness": f"variance of {spec.metric.replace('_', ' ')} over clients",
        "participation": "share of clients that gain by federation",
        "parameters": "trained parameters",
        "floats_up": "floats uploaded per client and round",
        "floats_down": "floats downloaded per client and round",
    }[spec.value]
    spread = f", {spec.center} $\\pm$ radius of the 95\\,\\% interval" * any(
        cell.ci95 is not None for cell in table.shown
    )
    bold = "; best of ours in bold" * any(_best(table, [cell]) is not None for cell in table.shown)
    return f"{escape(table.title.rstrip('.'))}. {escape(what[0].upper() + what[1:])}{spread}{bold}."


def legend(table: Table) -> str:
    """Return what the marks of differences mean; empty where nothing is printed."""
    if all(cell.printed is None for cell in table.shown):
        return ""
    marks = {cell.verdict for cell in table.shown}
    text = "Diff.: ours minus printed."
    if "same side" in marks:
        text += rf" ${MARKS['same side']}$ Same side of {escape(table.spec.silo or 'Silo')}."
    return text + (rf" ${MARKS['off']}$ Off." if "off" in marks else "")


def escape(text: str) -> str:
    """Return ``text`` as LaTeX that prints it."""
    quoted = re.sub('"([^"]*)"', r"``\1''", one_line(text).translate(ESCAPES)).replace('"', "''")
    return re.sub(r"^[*\[]", r"{\g<0>}", quoted)  # else it would be an argument of the command that ends a row


class _Places(NamedTuple):
    headings: list[str]
    rows: list[tuple[str, list[tuple[str, str, str]]]]  # label, then (method, checkpoint, client) by column


def _places(table: Table) -> _Places:
    rows = table.spec.rows
    full = all(set(row.checkpoints) == set(table.checkpoints) for row in rows)
    if table.spec.columns == "checkpoints" and full:
        headings = [HEADINGS[checkpoint] for checkpoint in table.checkpoints]
        if len(headings) == 1:
            headings = ["Ours"]
        return _Places(
            headings,
            [(row.method, [(row.method, checkpoint, "all") for checkpoint in table.checkpoints]) for row in rows],
        )
    clients = ["all"]
    headings = ["Ours"]
    if table.spec.columns == "clients":
        clients += map(str, range(len(table.clients)))
        headings = [summary(table), *table.clients]
    several = len(table.checkpoints) > 1
    return _Places(
        headings,
        [
            (
                f"{row.method}, {HEADINGS[checkpoint].lower()}" if several else row.method,
                [(row.method, checkpoint, client) for client in clients],
            )
            for row in rows
            for checkpoint in row.checkpoints
        ],
    )


def _best(table: Table, column: list[Cell | None]) -> str | None:
    """Return the best number of a column as it is shown; None without one. Baselines do not compete."""
    spec = table.spec
    if not spec.better_or_worse:
        return None
    found = [
        cell for cell in column if cell is not None and cell.mean is not None and cell.method not in spec.baselines
    ]
    if not found:
        return None
    ranked = spec.summary == "rank" and found[0].client == "all"  # of mean ranks the lowest is best
    best = max(found, key=lambda cell: (-1 if ranked else spec.sign) * (cell.mean or 0.0))
    return _mean(shown(best, digits(table, best)))


def _cell(table: Table, cell: Cell | None, best: str | None) -> LatexCell | None:
    if cell is None:
        return None
    text = shown(cell, digits(table, cell))
    ours = escape(text.ours)
    mean = _mean(text)
    if cell.mean is not None and mean == best and cell.method not in table.spec.baselines:
        ours = rf"\textbf{{{mean}}}" + ours[len(mean) :]
    difference = f"${text.difference}{MARKS.get(text.verdict, '')}$" if text.difference else ""
    return LatexCell(ours, escape(text.printed), difference)


def _mean(text: Shown) -> str:
    return text.ours.partition(" ")[0].rstrip("*")
