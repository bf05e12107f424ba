"""Command `silobench list`: algorithms, data sets, models, and the tables and figures that can be reproduced."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any

import typer

from bench import listing, registry
from bench.cli.format import aligned, as_json, count, duration
from bench.cli.options import DataOption, JsonOption
from bench.rebuild import exhibits
from bench.types import SpecError


class Kind(StrEnum):
    """Kinds of entries that can be listed."""

    ALGORITHMS = "algorithms"
    DATASETS = "datasets"
    MODELS = "models"
    TABLES = "tables"
    FIGURES = "figures"


def list_(
    kind: Annotated[Kind, typer.Argument(help="List entries of this kind.", show_default=False)],
    text: Annotated[str, typer.Argument(help="Show only entries with this text in their name or title.")] = "",
    ready: Annotated[bool, typer.Option("--ready", help="Show only tables and figures that can run now.")] = False,
    paper: Annotated[
        str | None,
        typer.Option(help="Show only tables and figures of this folder of experiments/.", show_default=False),
    ] = None,
    data_set: Annotated[
        str | None, typer.Option(help="Show only tables and figures that use this data set.", show_default=False)
    ] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Show data, profiles and estimated times too.")] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List algorithms, data sets, models, or the tables and figures that can be reproduced."""
    if kind in (Kind.TABLES, Kind.FIGURES):
        entries = exhibits.select(
            exhibits.exhibits("tables" if kind is Kind.TABLES else "figures", data),
            text=text, paper=paper, data_set=data_set, ready=ready,
        )  # fmt: skip
        print(as_json(entries) if json else "\n".join(map(_details, entries) if long else _by_paper(kind, entries)))
        return
    for option, given in (("--ready", ready), ("--paper", paper), ("--data-set", data_set), ("--long", long)):
        if given:
            raise SpecError(f"{option}: only for tables and figures; leave it out to list {kind}")
    listed = [each for each in _registered(kind) if text.lower() in f"{each['name']}  {each['summary']}".lower()]
    if json:
        print(as_json(listed))
    elif kind is Kind.ALGORITHMS:
        columns = shutil.get_terminal_size((120, 24)).columns
        print(*(listing.text(entry, columns) for entry in listed), sep="\n")
    else:
        print(*aligned([[entry["name"], entry["summary"]] for entry in listed]), sep="\n")


def _registered(kind: Kind) -> Iterator[Mapping[str, Any]]:
    if kind is Kind.ALGORITHMS:
        yield from listing.algorithms()
    else:
        for entry in registry.catalogue("datasets" if kind is Kind.DATASETS else "models").values():
            yield {"name": entry.name, "summary": entry.summary}


def _by_paper(kind: Kind, entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line per table or figure, indented below its paper, and a line of totals."""
    titles = exhibits.papers()
    rows = aligned([[each["name"], _runs(each), _state(each), each["summary"]] for each in entries])
    width = shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else None
    for paper, lines in groupby(zip(entries, rows, strict=True), key=lambda pair: pair[0]["paper"]):
        yield f"{paper}: {titles[paper]}" if titles[paper] else paper
        yield from (f"  {line[:width]}" for _, line in lines)
    ready = sum(entry["ready"] for entry in entries)
    yield f"{count(len(entries), kind.removesuffix('s'))}, {ready} ready to run; details with --long"


def _runs(entry: Mapping[str, Any]) -> str:
    return count(entry["runs"], "run") if entry["runs"] else "no runs"


def _state(entry: Mapping[str, Any]) -> str:
    """Return whether a table or figure can run now, or the data sets that are missing."""
    missing = [name for name, state in entry["data"].items() if state not in exhibits.READY]
    if not missing:
        return "ready"
    return f"missing {missing[0] if len(missing) == 1 else count(len(missing), 'data set')}"


def _details(entry: Mapping[str, Any]) -> str:
    """Return a table or figure as two lines, the second one indented."""
    if not entry["runs"] and not entry["data"]:
        return f"{entry['name']}  {entry['summary']}\n    nothing to train; can run now"
    data = ", ".join(f"{name} ({state})" for name, state in entry["data"].items())
    ready = "can run now" if entry["ready"] else "data files are missing"
    profiles = ", ".join(
        each if took is None else f"{each} (about {duration(took)} here for its whole study)"
        for each, took in entry["seconds"].items()
    )
    return (
        f"{entry['name']}  {entry['summary']}\n    {_runs(entry)}, no GPU needed; {data}; profiles {profiles}; {ready}"
    )
