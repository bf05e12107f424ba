"""The command ``silobench data``: what data sets there are, how to come by their files, and whether these are intact.

``list`` and ``info`` read the cards and are quick; ``prepare`` and ``verify`` import the data set, and torch with it.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import registry
from bench.files import cache_folder
from bench.types import DataError, SpecError

if TYPE_CHECKING:
    from bench.data.files.cards import Card
    from bench.data.files.download import Watcher
    from bench.types import Federation

app = typer.Typer(help="Data sets: their cards, their files, and whether these are intact.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="A name from `silobench data list`.", show_default=False)]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of raw data files, searched first.", show_default=False)
]
OptionsArgument = Annotated[
    list[str] | None, typer.Argument(help="Options of the data set, each as name=value.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the data sets: which files are at hand, clients and samples, what it is about."""
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
    if as_json:
        _print_json(entries)
        return
    shown = ("name", "files", "size")
    widths = {key: max(len(entry[key]) for entry in entries) for key in shown}
    for entry in entries:
        print(*(f"{entry[key]:<{widths[key]}}" for key in shown), entry["summary"], sep="  ")


@app.command()
def info(name: NameArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show a data set's card, the defaults of its options, and which of its files are at hand."""
    from bench.data.files import cards, download

    card = cards.read(name)
    places = {needed: needed.place(data) for needed in card.files}
    searched = [] if card.elsewhere else [*download.data_folders(data), cache_folder()]
    if as_json:
        files = [
            {"names": needed.names, "bytes": needed.size, "hash": needed.digest, "place": str(place) if place else None}
            for needed, place in places.items()
        ]
        _print_json(
            {
                "name": card.name,
                "summary": card.summary,
                "facts": card.facts,
                "citation": card.citation,
                "options": card.options,
                "files": files,
                "searched": list(map(str, searched)),
                "card": card.text,
            }
        )
        return
    lines = [card.text.rstrip() or f"# {card.name}\n\n{card.summary}", *_defaults(card), "", "## On this machine", ""]
    lines += [f"- `{needed.names[0]}`: {place or 'not at hand'}" for needed, place in places.items()]
    if card.elsewhere:
        lines.append(card.elsewhere)
    else:
        lines += ["" if places else "No files are needed.", f"Searched: {', '.join(map(str, searched))}"]
    _print_markdown("\n".join(lines))


@app.command()
def prepare(
    name: NameArgument,
    options: OptionsArgument = None,
    data: DataOption = None,
) -> None:
    """Find or download the files of a data set, check them, and decode them into the cache."""
    from bench.data import load_dataset
    from bench.data.files import download, inventory

    for folder in inventory.discard_damaged(name):
        print(f"{folder}: was damaged, is made anew", file=sys.stderr)
    with _progress() as watcher, download.watched(watcher):
        federation = load_dataset(name, data, **dict(map(assignment, options or [])))
    sizes = {
        part: sum(len(split) for client in federation.clients if (split := getattr(client, part)) is not None)
        for part in ("train", "validation", "test")
    }
    counted = ", ".join(f"{size} {part}" for part, size in sizes.items() if size)
    synthetic = " (SYNTHETIC)" if federation.synthetic else ""
    print(f"{name}{synthetic} is ready: {len(federation.clients)} clients; samples: {counted}")


@app.command()
def plot(
    name: NameArgument,
    options: OptionsArgument = None,
    data: DataOption = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure.")] = Path("results/partitions"),
) -> None:
    """Draw which client holds how many training samples of which class."""
    from bench.data import load_dataset
    from bench.report.figures.bar_charts import partition
    from bench.report.tables.table import titled

    federation = load_dataset(name, data, **dict(map(assignment, options or [])))
    counts = class_counts(federation)
    shown = ", ".join([name, *(options or [])])
    names = [client.name for client in federation.clients]
    title = titled(f"Training samples of {shown}", federation.synthetic)
    stem = out / "-".join([name, *(option.replace("=", "-") for option in options or [])])
    print(*partition(counts, names, stem, title=title), sep="\n")


def class_counts(federation: Federation) -> list[list[int]]:
    """Training samples by client and class; raises :class:`SpecError` where targets are no classes."""
    if federation.task == "segmentation":
        raise SpecError(f"{federation.name}: its targets are masks, not classes; there is no partition to draw")
    return [
        client.train.y.flatten().long().bincount(minlength=federation.classes).tolist() for client in federation.clients
    ]


@app.command()
def verify(name: NameArgument, data: DataOption = None) -> None:
    """Compare with its hash every file at hand of a data set and all that was made of them; exit status 2 on damage."""
    from bench.data.files import inventory

    damaged = 0
    for finding in inventory.examine(name, data):
        print(f"{finding.state:<8}  {finding.file}  ({finding.detail})")
        damaged += finding.state == "damaged"
    if damaged:
        raise DataError(
            f"{name}: {damaged} damaged; after what is said above, `silobench data prepare {name}` mends it"
        )


def assignment(text: str) -> tuple[str, Any]:
    """``name=value``; the value is read as in a study, and as words where it is nothing else."""
    option, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"{text!r}: expected an option as name=value")
    try:
        return option, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return option, value


def _defaults(card: Card) -> list[str]:
    if not card.options:
        return []
    lines = [f"- `{option} = {json.dumps(value, ensure_ascii=False)}`" for option, value in card.options.items()]
    return ["", "## Defaults", "", *lines]


def _print_json(content: object) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def _print_markdown(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@contextmanager
def _progress() -> Iterator[Watcher]:
    """A bar per download on the terminal, gone afterwards; elsewhere a line per file."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def watch(path: str, there: int, size: int | None) -> None:
            if path not in tasks:
                tasks[path] = bars.add_task(path, total=size)
                if not console.is_terminal:
                    print(f"downloading {path}", file=sys.stderr)
            bars.update(tasks[path], completed=there)

        yield watch
