"""Command `silobench list`: algorithms, data sets, models, and the tables and figures that can be reproduced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import exhibits, listing, registry
from bench.cli.format import aligned, as_json, count, duration
from bench.cli.options import DataOption, JsonOption


class Kind(StrEnum):
    """Kinds of entries that can be listed."""

    ALGORITHMS = "algorithms"
    DATASETS = "datasets"
    MODELS = "models"
    TABLES = "tables"
    FIGURES = "figures"


def list_(
    kind: Annotated[Kind, typer.Argument(help="Kind of entries to list.", show_default=False)],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List algorithms, data sets, models, tables or figures."""
    entries = list(_entries(kind, data))
    if json:
        print(as_json(entries))
    elif kind in (Kind.TABLES, Kind.FIGURES):
        print(*map(_exhibit, entries), sep="\n")
    elif kind is Kind.ALGORITHMS:
        columns = shutil.get_terminal_size((120, 24)).columns
        print(*(listing.text(entry, columns) for entry in entries), sep="\n")
    else:
        print(*aligned([[entry["name"], entry["summary"]] for entry in entries]), sep="\n")


def _entries(kind: Kind, data: Path | None) -> Iterator[dict[str, Any]]:
    match kind:
        case Kind.TABLES:
            yield from exhibits.exhibits("tables", data)
        case Kind.FIGURES:
            yield from exhibits.exhibits("figures", data)
        case Kind.ALGORITHMS:
            yield from listing.algorithms()
        case Kind.DATASETS | Kind.MODELS:
            for registered in registry.catalogue(kind.value).values():
                yield {"name": registered.name, "summary": registered.summary}


def _exhibit(entry: Mapping[str, Any]) -> str:
    """Return a table or figure as two lines, the second one indented."""
    if not entry["runs"] and not entry["data"]:
        return f"{entry['name']}  {entry['summary']}\n    nothing is trained; can run now"
    data = ", ".join(f"{name} ({state})" for name, state in entry["data"].items())
    ready = "can run now" if entry["ready"] else "data files are missing"
    profiles = ", ".join(
        each if took is None else f"{each} (about {duration(took)} here for its whole study)"
        for each, took in entry["seconds"].items()
    )
    runs = count(entry["runs"], "run")
    return f"{entry['name']}  {entry['summary']}\n    {runs}, no GPU needed; {data}; profiles {profiles}; {ready}"
