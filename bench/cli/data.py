"""Commands of `silobench data`: list, describe, prepare, plot and verify data sets.

`list` and `info` read the cards and are quick; `prepare`, `plot` and `verify` import the data set and torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench import registry
from bench.cli.format import aligned, as_json, exact
from bench.cli.options import DataOption, JsonOption, assignment
from bench.cli.progress import controls_cursor
from bench.cli.terminal import console, printable_streams
from bench.files import cache_folder
from bench.types import DataError

if TYPE_CHECKING:
    from bench.data.files.cards import Card
    from bench.data.files.download import Watcher

app = typer.Typer(help="List, describe, prepare and verify data sets.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="Use this data set; see `silobench data list`.", show_default=False)]
OptionsArgument = Annotated[
    list[str] | None, typer.Argument(help="Set options of the data set, as name=value.", show_default=False)
]


@app.command("list")
def list_(data: DataOption = None, json: JsonOption = False) -> None:
    """List the data sets: available files, size and summary."""
    from bench.data.files import cards

    entries = [
        {
            "name": card.name,
            "files": card.at_hand(data),
            "size": card.facts.get("Size", ""),
            "access": card.facts.get("Access", ""),
            "summary": card.summary,
        }
        for card in map(cards.read, registry.catalogue("datasets"))
    ]
    if json:
        print(as_json(entries))
    else:
        print(*aligned([[entry[key] for key in ("name", "files", "size", "summary")] for entry in entries]), sep="\n")


@app.command()
def info(name: NameArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show the card of a data set, its options and which of its files are on this machine."""
    from bench.data.files import cards, locate

    card = cards.read(name)
    places = {needed: locate.at_hand(needed, data) for needed in card.files}
    searched = [] if card.external else [*locate.data_folders(data), cache_folder()]
    if json:
        files = [
            {
                "names": needed.names,
                "bytes": needed.size,
                "hash": needed.digest or None,
                "place": str(place) if place else None,
            }
            for needed, place in places.items()
        ]
        document = {
            "name": card.name,
            "summary": card.summary,
            "facts": card.facts,
            "citation": card.citation,
            "options": card.options,
            "files": files,
            "searched": list(map(str, searched)),
            "card": card.text,
        }
        print(as_json(document))
        return
    lines = [card.text.rstrip() or f"# {card.name}\n\n{card.summary}", *_defaults(card), "", "## On this machine", ""]
    lines += [f"- `{needed.names[0]}`: {place or 'missing'}" for needed, place in places.items()]
    if card.external:
        lines.append(card.external)
    else:
        lines += ["" if places else "No files are needed.", f"Searched folders: {', '.join(map(str, searched))}"]
    _print_markdown("\n".join(lines))


@app.command()
def prepare(name: NameArgument, options: OptionsArgument = None, data: DataOption = None) -> None:
    """Find or download the files of a data set, check them and decode them into the cache."""
    from bench.data import load_dataset
    from bench.data.files import download, inventory

    for folder in inventory.discard_damaged(name):
        print(f"{folder}: damaged; decoding it again", file=sys.stderr)
    with _progress() as watcher, download.watched(watcher):
        federation = load_dataset(name, data, **dict(map(assignment, options or [])))
    sizes = {
        part: sum(len(split) for client in federation.clients if (split := getattr(client, part)) is not None)
        for part in ("train", "validation", "test")
    }
    samples = ", ".join(f"{size} {part}" for part, size in sizes.items() if size)
    synthetic = " (SYNTHETIC)" if federation.synthetic else ""
    print(f"{name}{synthetic} is ready: {len(federation.clients)} clients; samples: {samples}")


@app.command()
def plot(
    name: NameArgument,
    options: OptionsArgument = None,
    data: DataOption = None,
    out: Annotated[Path, typer.Option("--out", help="Write the figure to this folder.")] = Path("results/partitions"),
) -> None:
    """Plot the number of training samples of each class at each client."""
    from bench.data import load_dataset
    from bench.data.class_counts import class_counts
    from bench.report.figures.partition_bars import partition
    from bench.report.tables.table import titled

    options = options or []
    federation = load_dataset(name, data, **dict(map(assignment, options)))
    counts = class_counts(federation)
    names = [client.name for client in federation.clients]
    title = titled(f"Training samples of {', '.join([name, *options])}", federation.synthetic)
    stem = out / "-".join([name, *(option.replace("=", "-") for option in options)])
    print(*partition(counts, names, stem, title=title), sep="\n")


@app.command()
def verify(name: NameArgument, data: DataOption = None) -> None:
    """Compare all files of a data set, raw and decoded, with their hashes; exit with 2 if one is damaged."""
    from bench.data.files import inventory

    damaged = examined = 0
    for finding in inventory.examine(name, data):
        print(f"{finding.state:<8}  {finding.file}  ({finding.detail})")
        damaged += finding.state == "damaged"
        examined += 1
    if not examined:
        print(f"{name}: no files to check; `silobench data info {name}` describes its data")
    if damaged:
        raise DataError(f"{name}: {damaged} damaged; follow the advice above, then run `silobench data prepare {name}`")


def _defaults(card: Card) -> list[str]:
    if not card.options:
        return []
    return ["", "## Defaults", "", *(f"- `{option} = {exact(value)}`" for option, value in card.options.items())]


def _print_markdown(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.markdown import Markdown

    console().print(Markdown(text))


@contextmanager
def _progress() -> Iterator[Watcher]:
    """Show a bar per download on a terminal, removed at the end; elsewhere print a line per file."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    live, shown = controls_cursor(), console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bars = Progress(*columns, TimeRemainingColumn(), console=shown, transient=True, disable=not live)
    with bars, printable_streams():
        tasks: dict[str, TaskID] = {}

        def watch(path: str, there: int, size: int | None) -> None:
            if path not in tasks:
                tasks[path] = bars.add_task(path, total=size)
                if not live:
                    print(f"downloading {path}", file=sys.stderr)
            bars.update(tasks[path], completed=there)

        yield watch
