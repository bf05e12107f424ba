"""Command `silobench audit`: a paper's claims checked against the numbers it prints."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from bench.cli.format import as_json
from bench.cli.options import JsonOption

WIDTHS = (80, 120)  # narrowest and widest output, in characters


def audit(
    paper: Annotated[str, typer.Argument(help="Check this folder of experiments/, e.g. fenda.", show_default=False)],
    full: Annotated[bool, typer.Option("--full", help="Show every number of every claim.")] = False,
    json: JsonOption = False,
) -> None:
    """Check the claims of a paper against the numbers that it prints."""
    from bench.report.audit import findings
    from bench.report.audit.text import render

    found = findings.audit(paper)
    if json:
        print(as_json(findings.document(found)))
    else:
        width = min(max(shutil.get_terminal_size().columns, WIDTHS[0]), WIDTHS[1])
        print(render(found, width, full=full))
