"""The command ``silobench``: parse, call, print. What takes long to import is imported where it is used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bench import cli_data, registry
from bench.cli_data import DataOption
from bench.types import Chosen, DataError, SilobenchError, SpecError, nearest

if TYPE_CHECKING:
    from bench.report.tables import Table
    from bench.spec import AlphaSection, StudySpec, TableSection
    from bench.sweep.select import Search
    from bench.sweep.study import Progress

QUICKSTART = "quickstart"
INCOMPLETE = 3  # exit status: the table was made, with missing or diverged cells

app = typer.Typer(
    help="Reproducible benchmarks of personalised cross-silo federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_data.app, name="data")
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
        sys.exit(2)


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list of objects.")] = False,
) -> None:
    """List what specs can name, or the tables and figures that can be reproduced."""
    entries = [{"name": name, "summary": summary} for name, summary in _listed(kind)]
    if as_json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    width = max((len(entry["name"]) for entry in entries), default=0)
    for entry in entries:
        print(f"{entry['name']:<{width}}  {entry['summary']}".rstrip())


def _listed(kind: Kind) -> Iterator[tuple[str, str]]:
    match kind:
        case Kind.TABLES | Kind.FIGURES:
            from bench.spec import published

            for entry in published("tables" if kind is Kind.TABLES else "figures").values():
                yield entry.id, entry.title
        case _:
            for registered in registry.catalogue(kind.value).values():
                yield registered.name, registered.summary


@app.command()
def reproduce_table(
    table: Annotated[str, typer.Argument(help="A name from `silobench list tables`.")] = QUICKSTART,
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
) -> None:
    """Re-run a table from raw data to comparison; runs in the store are not repeated."""
    _make(_study_of("tables", table), [table], [], store, out, data)


@app.command()
def reproduce_figure(
    figure: Annotated[str, typer.Argument(help="A name from `silobench list figures`.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
) -> None:
    """Re-run a figure; runs in the store are not repeated."""
    _make(_study_of("figures", figure), [], [figure], store, out, data)


@app.command()
def sweep(
    study: Annotated[Path, typer.Argument(help="A study file.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
) -> None:
    """Run a study of your own and make its tables and figures; without a table in it, one of all methods."""
    from bench.spec import read

    spec = read(study).with_a_table()
    _make(spec, spec.tables, spec.figures, store, out, data)


@app.command()
def report(store: StoreOption = STORE, out: OutOption = OUT, data: DataOption = None) -> None:
    """Make anew, without training, every table and figure of experiments/ all of whose methods have records."""
    from bench.spec import published, read
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    whole = True
    for file in dict.fromkeys(entry.file for kind in ("tables", "figures") for entry in published(kind).values()):
        study = read(file)
        try:
            searches = run_study(study, Store(store), root=data, train=False)
        except DataError as error:
            print(f"{file}: left out, {error}", file=sys.stderr)
            continue
        begun = {name for name, search in searches.items() if any(map(any, search.records))}
        tables = [name for name in study.tables if study.methods_behind([name], []) <= begun]
        figures = [name for name in study.figures if study.methods_behind([], [name]) <= begun]
        whole &= _write(study, searches, tables, figures, out)
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
    study: StudySpec, tables: Iterable[str], figures: Iterable[str], store: Path, out: Path, data: Path | None
) -> None:
    """Run what the tables and figures need and the store lacks, and write them."""
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    methods = study.methods_behind(tables, figures)
    with _progress() as progress:
        searches = run_study(study, Store(store), methods=methods, root=data, progress=progress)
    if not _write(study, searches, tables, figures, out):
        raise typer.Exit(INCOMPLETE)


def _write(
    study: StudySpec, searches: Mapping[str, Search], tables: Iterable[str], figures: Iterable[str], out: Path
) -> bool:
    """Write tables and figures and print where; False if a cell is missing or diverged."""
    from bench.report import html
    from bench.sweep.select import choose

    chosen = {name: choose(search, study.rule) for name, search in searches.items()}
    made: dict[str, Table] = {}
    for name in tables:
        made[name] = _table(study, study.tables[name], chosen)
        print(html.render(made[name]))
        print(*html.write(made[name], out / name), "", sep="\n")
    for name in figures:
        figure = study.figures[name]
        if figure.kind == "alpha":
            paths = _alpha(figure, searches[figure.of], chosen[figure.of], out / name)
        else:
            from bench.report.figures import bars

            panels = {each: made.get(each) or _table(study, study.tables[each], chosen) for each in figure.tables}
            made |= panels
            paths = bars(list(panels.values()), out / name, title=figure.title)
        print(*paths, "", sep="\n")
    return not any(table.incomplete for table in made.values())


def _table(study: StudySpec, section: TableSection, chosen: Mapping[str, Chosen]) -> Table:
    from bench.report.tables import Row, TableSpec, build

    spec = TableSpec(
        id=section.id,
        title=section.title or study.title,
        dataset=study.data,
        metric=section.metric or _own_metric(chosen.values()),
        rows=tuple(Row(row.method, row.of, row.score, tuple(row.checkpoints)) for row in section.rows),
        silo=section.silo,
        baselines=tuple(section.baselines),
        notes=tuple(section.notes),
        ranks=section.ranks,
        digits=section.digits,
        one_run=section.one_run,
    )
    return build(spec, chosen, study.printed(section))


def _alpha(figure: AlphaSection, search: Search, chosen: Chosen, stem: Path) -> list[Path]:
    from bench.report.figures import alpha_study
    from bench.report.tables import run_mean, titled

    metric = figure.metric or _own_metric([chosen])
    tried = search.along("alpha_lr", chosen.hyperparameters)
    runs = {
        rate: [None if record is None else run_mean(record, metric, figure.checkpoint) for record in records]
        for rate, records in tried.items()
    }
    synthetic = any(record["synthetic"] for records in tried.values() for record in records if record)
    return alpha_study(runs, stem, title=titled(figure.title, synthetic), metric=metric)


def _own_metric(chosen: Iterable[Chosen]) -> str:
    """The data set's first metric, as the records have it."""
    return next(record["scores"][0][3] for choice in chosen for record in choice.records if record)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on the terminal while training, gone afterwards."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)
