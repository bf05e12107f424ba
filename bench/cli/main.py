"""The command ``silobench``: parse, call, print. What takes long to import is imported where it is used."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import listing, registry
from bench.cli import data as data_commands
from bench.cli import plan as planning
from bench.cli import tables
from bench.cli.audit import audit
from bench.cli.data import DataOption
from bench.cli.store import PAPER, STORE, ProfileOption, StoreOption, export, runs, show, status
from bench.cli.tables import Place
from bench.cli.training import How, trains
from bench.types import SilobenchError

QUICKSTART = "quickstart"
STOPPED = 130  # exit status: asked to stop, as shells say it
INCOMPLETE = 3  # exit status: the table was made, with missing or diverged cells

app = typer.Typer(
    help="Reproducible benchmarks of personalised cross-silo federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_commands.app, name="data")
for command in (audit, status, runs, show, export):
    app.command()(command)
OutOption = Annotated[Path, typer.Option("--out", help="Folder for tables and figures.")]
PartialOption = Annotated[
    bool, typer.Option("--partial", help="Rank over the data sets that are there; the title says PARTIAL.")
]
OUT, SITE = Path("results/tables"), Path("results/report")


class Kind(StrEnum):
    """What can be listed."""

    ALGORITHMS = "algorithms"
    DATASETS = "datasets"
    MODELS = "models"
    TABLES = "tables"
    FIGURES = "figures"


def main() -> None:
    """Run the command; a fault of the request or the data is one line and exit status 2."""
    try:
        app()
    except SilobenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(STOPPED)


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list of objects.")] = False,
) -> None:
    """List what specs can name, or the tables and figures that can be reproduced."""
    entries = list(_listed(kind, data))
    if as_json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
    elif kind in (Kind.TABLES, Kind.FIGURES):
        print(*map(tables.text, entries), sep="\n")
    elif kind is Kind.ALGORITHMS:
        columns = shutil.get_terminal_size((120, 24)).columns
        print(*(listing.text(entry, columns) for entry in entries), sep="\n")
    else:
        width = max((len(entry["name"]) for entry in entries), default=0)
        print(*(f"{entry['name']:<{width}}  {entry['summary']}".rstrip() for entry in entries), sep="\n")


def _listed(kind: Kind, data: Path | None) -> Iterator[dict[str, Any]]:
    match kind:
        case Kind.TABLES | Kind.FIGURES:
            yield from tables.listed("tables" if kind is Kind.TABLES else "figures", data)
        case Kind.ALGORITHMS:
            yield from listing.algorithms()
        case _:
            for registered in registry.catalogue(kind.value).values():
                yield {"name": registered.name, "summary": registered.summary}


@app.command()
@trains
def reproduce_table(
    table: Annotated[str, typer.Argument(help="A name from `silobench list tables`.")] = QUICKSTART,
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    partial: PartialOption = False,
    *,
    how: How,
) -> None:
    """Re-run a table from raw data to comparison; runs in the store are not repeated."""
    whole = tables.reproduce("tables", table, profile, Place(store, out, data), how, partial=partial)
    if not whole:
        raise typer.Exit(INCOMPLETE)


@app.command()
@trains
def reproduce_figure(
    figure: Annotated[str, typer.Argument(help="A name from `silobench list figures`.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    partial: PartialOption = False,
    *,
    how: How,
) -> None:
    """Re-run a figure; runs in the store are not repeated."""
    whole = tables.reproduce("figures", figure, profile, Place(store, out, data), how, partial=partial)
    if not whole:
        raise typer.Exit(INCOMPLETE)


@app.command()
@trains
def sweep(
    study: Annotated[Path, typer.Argument(help="A study file.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, as `silobench plan`.")
    ] = False,
    *,
    how: How,
) -> None:
    """Run a study of your own and make its tables and figures; without a table in it, one of all methods."""
    from bench.spec import read

    if dry_run:
        plan(study, store, data, profile, how.workers)
        return
    spec = read(study, profile).with_a_table()
    if not tables.make(spec, spec.tables, spec.figures, Place(store, out, data), how):
        raise typer.Exit(INCOMPLETE)


@app.command()
def plan(
    study: Annotated[Path, typer.Argument(help="A study file.", show_default=False)],
    store: StoreOption = STORE,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, help="Worker processes to count with.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what a study would train, download and cost on this machine, from a short calibration; runs nothing else."""
    from bench.spec import read
    from bench.sweep.estimate import estimate
    from bench.sweep.store import Store

    found = estimate(read(study, profile), Store(store), root=data)
    planning.note(study, profile, found)
    print(planning.document(found, workers) if as_json else planning.text(found, workers))


@app.command()
@trains
def reproduce_paper(
    paper: Annotated[str, typer.Argument(help="A folder of experiments/, e.g. fenda.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    *,
    how: How,
) -> None:
    """Re-run every table and figure of a paper whose data are at hand, and say which are not."""
    if not tables.reproduce_paper(paper, profile, Place(store, out, data), how):
        raise typer.Exit(INCOMPLETE)


@app.command()
def report(
    store: StoreOption = STORE,
    out: OutOption = OUT,
    site: Annotated[Path, typer.Option("--site", help="Folder for the report.")] = SITE,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
) -> None:
    """Make anew, without training, every table and figure with records, and a site that shows them all."""
    if not tables.report(profile, Place(store, out, data), site):
        raise typer.Exit(INCOMPLETE)
