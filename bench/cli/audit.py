"""The command ``silobench audit``: a paper's claims held against the numbers that it prints itself."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.report.audit.findings import Audit


def audit(
    paper: Annotated[str, typer.Argument(help="A folder of experiments/ with an audit.toml.", show_default=False)],
    full: Annotated[bool, typer.Option("--full", help="Show every number of every claim.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object, with every number.")] = False,
) -> None:
    """Hold a paper's claims against its own printed numbers: what follows from them, what does not, and why."""
    from bench.report.audit.findings import audit as check
    from bench.report.audit.findings import document

    found = check(paper)
    if as_json:
        print(json.dumps(document(found), indent=2, ensure_ascii=False))
        return
    show(found, full=full)


def show(found: Audit, *, full: bool) -> None:
    """Print what an audit has found, ``full`` with every number."""
    from bench.report.audit.findings import render

    print(render(found, min(max(shutil.get_terminal_size().columns, 80), 120), full=full))
