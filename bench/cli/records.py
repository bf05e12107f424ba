"""Commands on a store of records: `status`, `runs`, `show` and `export`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.cli import records_text as text
from bench.cli.format import as_json
from bench.cli.options import PAPER, STORE, DataOption, JsonOption, ProfileOption, StoreOption, assignment
from bench.safe_text import csv_text
from bench.sweep.export.formats import Format
from bench.types import CHECKPOINTS, DataError, SpecError

if TYPE_CHECKING:
    from bench.sweep.store import Store


class StudyFormat(StrEnum):
    """Formats of a study file."""

    TOML = "toml"


def status(
    study: Annotated[
        Path | None, typer.Argument(help="Also show how many runs of this study file are finished.", show_default=False)
    ] = None,
    store: StoreOption = STORE,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    json: JsonOption = False,
) -> None:
    """Show running, finished and failed training; exit with 2 if records are damaged."""
    from bench.sweep.status import progress, status
    from bench.sweep.store import Store

    found, records = status(Store(store))
    if study is not None:
        from bench.spec import read

        found["study"] = progress(read(study, profile), records, data)
    print(as_json(found) if json else "\n".join(text.of_state(found)))
    _report_damage(found["damaged"])


def runs(
    store: StoreOption = STORE,
    algorithm: Annotated[str | None, typer.Option(help="List only runs of this algorithm.", show_default=False)] = None,
    data: Annotated[str | None, typer.Option(help="List only runs on this data set.", show_default=False)] = None,
    status: Annotated[
        str | None, typer.Option(help="List only runs with this status: finished or diverged.", show_default=False)
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="List only runs with this setting, e.g. lr=0.1, model.hidden=10 or seed=1; repeat to combine.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """List finished runs: setting, lowest validation loss and mean test score at each checkpoint."""
    from bench.sweep.query import select
    from bench.sweep.store import garbage_collection_paused

    given = {"algorithm": algorithm, "data": data, "status": status}
    wanted = [(name, value) for name, value in given.items() if value is not None]
    with garbage_collection_paused():
        found = select(_existing(store), [*wanted, *map(assignment, where or [])])
        if json:
            print(as_json(found.summaries))
        elif as_csv:
            _print_csv(found.summaries)
        else:
            print(*text.of_runs(found), sep="\n")
    _report_damage(found.damage)


def show(
    run: Annotated[
        str, typer.Argument(help="Show the run with this hash; its first digits are enough.", show_default=False)
    ],
    store: StoreOption = STORE,
    json: JsonOption = False,
    spec: Annotated[
        StudyFormat | None, typer.Option(help="Print a study file that repeats the run.", show_default=False)
    ] = None,
) -> None:
    """Show everything that is recorded about one run."""
    from bench.sweep.query import find, study_file

    records, damage = _existing(store).read_all()
    record = find(records, run)
    if record is not None:
        if spec is not None:
            print(study_file(record), end="")
        else:
            print(as_json(record) if json else "\n".join(text.of_run(record)))
    _report_damage(damage)
    if record is None:
        raise SpecError(f"{store}: no run {run!r}; list the runs with `silobench runs --store {store}`")


def export(
    place: Annotated[
        Path, typer.Argument(help="Write to this new folder; for mlflow and optuna to a new file.", show_default=False)
    ],
    to: Annotated[Format, typer.Option(help="Write this format.", show_default=False)],
    store: StoreOption = STORE,
    study: Annotated[
        Path | None,
        typer.Option(help="Export only the runs of this study file; required for optuna.", show_default=False),
    ] = None,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
) -> None:
    """Export records to CSV, Parquet, TensorBoard, MLflow or Optuna."""
    from bench.spec import read
    from bench.sweep.export.formats import export as write

    write(_existing(store), place, to, None if study is None else read(study, profile), data)
    print(place)


def _existing(store: Path) -> Store:
    from bench.sweep.store import Store

    if not store.is_dir():
        raise SpecError(f"{store}: no such store; name the folder of records with --store")
    return Store(store)


def _print_csv(summaries: Sequence[Mapping[str, Any]]) -> None:
    import pandas as pd

    columns = ("run", "data", "algorithm", "model", "seed", "status", "loss", "metric")
    settings = sorted({name for each in summaries for name in each["setting"]})
    rows = [
        [
            *(each[key] for key in columns),
            *(each["scores"].get(rule) for rule in CHECKPOINTS),
            *(each["setting"].get(name) for name in settings),
        ]
        for each in summaries
    ]
    print(csv_text(pd.DataFrame(rows, columns=[*columns, *CHECKPOINTS, *settings], dtype=object)), end="")


def _report_damage(damage: Sequence[str]) -> None:
    """Report damaged files after the intact records were printed; raise :class:`DataError` if there are any."""
    for each in damage[:-1]:
        print(f"error: {each}", file=sys.stderr)
    if damage:
        raise DataError(damage[-1])
