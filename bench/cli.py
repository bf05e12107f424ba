"""The command ``silobench``: parse, call, print. What takes long to import is imported where it is used."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bench import cli_data, listing, registry
from bench.cli_audit import audit
from bench.cli_data import DataOption
from bench.cli_run import How, training, trains
from bench.types import DataError, SilobenchError, SpecError, nearest

if TYPE_CHECKING:
    from bench.spec import StudySpec

QUICKSTART = "quickstart"
STOPPED = 130  # exit status: asked to stop, as shells say it
INCOMPLETE = 3  # exit status: the table was made, with missing or diverged cells

app = typer.Typer(
    help="Reproducible benchmarks of personalised cross-silo federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_data.app, name="data")
app.command()(audit)
StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the records of finished runs.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for tables and figures.")]
STORE, OUT = Path("results/runs"), Path("results/tables")


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
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list of objects.")] = False,
) -> None:
    """List what specs can name, or the tables and figures that can be reproduced."""
    entries = list(_listed(kind))
    if as_json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
    elif kind is Kind.ALGORITHMS:
        columns = shutil.get_terminal_size((120, 24)).columns
        print(*(listing.text(entry, columns) for entry in entries), sep="\n")
    else:
        width = max((len(entry["name"]) for entry in entries), default=0)
        print(*(f"{entry['name']:<{width}}  {entry['summary']}".rstrip() for entry in entries), sep="\n")


def _listed(kind: Kind) -> Iterator[dict[str, Any]]:
    match kind:
        case Kind.TABLES | Kind.FIGURES:
            from bench.spec import published

            for entry in published("tables" if kind is Kind.TABLES else "figures").values():
                yield {"name": entry.id, "summary": entry.title}
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
    *,
    how: How,
) -> None:
    """Re-run a table from raw data to comparison; runs in the store are not repeated."""
    _make(_study_of("tables", table), [table], [], store, out, data, how)


@app.command()
@trains
def reproduce_figure(
    figure: Annotated[str, typer.Argument(help="A name from `silobench list figures`.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    *,
    how: How,
) -> None:
    """Re-run a figure; runs in the store are not repeated."""
    _make(_study_of("figures", figure), [], [figure], store, out, data, how)


@app.command()
@trains
def sweep(
    study: Annotated[Path, typer.Argument(help="A study file.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, as `silobench plan`.")
    ] = False,
    *,
    how: How,
) -> None:
    """Run a study of your own and make its tables and figures; without a table in it, one of all methods."""
    from bench.spec import read

    if dry_run:
        plan(study, store, data, how.workers)
        return
    spec = read(study).with_a_table()
    _make(spec, spec.tables, spec.figures, store, out, data, how)


@app.command()
def plan(
    study: Annotated[Path, typer.Argument(help="A study file.", show_default=False)],
    store: StoreOption = STORE,
    data: DataOption = None,
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, help="Worker processes to count with.")] = 0,
) -> None:
    """Say what a study would train, download and cost on this machine, from a short calibration; runs nothing else."""
    from bench.spec import read
    from bench.sweep.estimate import describe, estimate
    from bench.sweep.store import Store

    print(describe(estimate(read(study), Store(store), root=data), max(workers, 1)))


@app.command()
def report(store: StoreOption = STORE, out: OutOption = OUT, data: DataOption = None) -> None:
    """Make anew, without training, every table and figure of experiments/ all of whose methods have records."""
    from bench.report import making
    from bench.spec import published, read
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    whole = True
    for file in dict.fromkeys(entry.file for kind in ("tables", "figures") for entry in published(kind).values()):
        study = read(file)
        try:
            searches = run_study(study, Store(store), root=data)
        except DataError as error:
            print(f"{file}: left out, {error}", file=sys.stderr)
            continue
        begun = {name for name, search in searches.items() if any(map(any, search.records))}
        tables = [name for name in study.tables if study.methods_behind([name], []) <= begun]
        figures = [name for name in study.figures if study.methods_behind([], [name]) <= begun]
        whole &= making.write(study, searches, tables, figures, out)
    if not whole:
        raise typer.Exit(INCOMPLETE)


def _study_of(kind: Literal["tables", "figures"], name: str) -> StudySpec:
    """The study in experiments/ that makes the table or figure ``name``."""
    from bench.spec import published, read

    known = published(kind)
    if name not in known:
        raise SpecError(f"unknown {kind[:-1]} {name!r}: {nearest(name, known)}")
    return read(known[name].file)


def _make(
    study: StudySpec, tables: Iterable[str], figures: Iterable[str], store: Path, out: Path, data: Path | None, how: How
) -> None:
    """Run what the tables and figures need and the store lacks, and write them."""
    from bench.report import making
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    methods = study.methods_behind(tables, figures)
    with training(how, store, data) as runner:
        searches = run_study(study, Store(store), methods=methods, root=data, runner=runner)
    if not making.write(study, searches, tables, figures, out):
        raise typer.Exit(INCOMPLETE)
