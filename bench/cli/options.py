"""Options, defaults and exit statuses that several commands share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.types import SpecError

WRONG_USAGE = 2  # exit status: unknown command, wrong argument or option
INCOMPLETE = 3  # exit status: a table was written with missing or diverged cells
PIPE_CLOSED = 141  # exit status: the reader of the output has gone, the convention of shells
INTERRUPTED = 130  # exit status: stopped by Ctrl-C, the convention of shells
PAPER = "paper"  # the profile that changes nothing in the study file
STORE, OUT, SITE = Path("results/runs"), Path("results/tables"), Path("results/report")


def _folder(given: Path) -> Path:
    """Return the folder of an option; raise :class:`SpecError` if it is a file."""
    if given.exists() and not given.is_dir():
        raise SpecError(f"{given}: is a file, expected a folder; name another one")
    return given


StudyArgument = Annotated[Path, typer.Argument(help="Read this study file (TOML).", show_default=False)]
StoreOption = Annotated[
    Path, typer.Option("--store", callback=_folder, help="Use the records of finished runs in this folder.")
]
OutOption = Annotated[Path, typer.Option("--out", callback=_folder, help="Write tables and figures to this folder.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Search raw data files in this folder, then in $BENCH_DATA.", show_default=False),
]
ProfileOption = Annotated[
    str, typer.Option("--profile", help="Use this profile of the study; see `silobench list tables --long`.")
]
SiteOption = Annotated[Path, typer.Option("--site", callback=_folder, help="Write the report site to this folder.")]
PartialOption = Annotated[
    bool,
    typer.Option("--partial", help="Compute ranks over the data sets that are available; mark the table as PARTIAL."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def assignment(text: str) -> tuple[str, Any]:
    """Split ``name=value``; read the value as TOML, or as text if it is not TOML."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"{text!r}: expected name=value")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
