"""The commands that look into a store: what is being trained, what is finished, one run in full, and its export."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import cli_text
from bench.cli_data import DataOption, JsonOption, assignment
from bench.types import CHECKPOINTS, DataError, SpecError, nearest

if TYPE_CHECKING:
    from bench.sweep.select import Search
    from bench.sweep.store import Record, Store

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the records of finished runs.")]
STORE = Path("results/runs")


class Form(StrEnum):
    """What records can be exported to."""

    CSV = "csv"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    OPTUNA = "optuna"


class SpecForm(StrEnum):
    """How a run's specification can be written."""

    TOML = "toml"


def status(
    study: Annotated[
        Path | None, typer.Argument(help="A study file: also how much of it is finished.", show_default=False)
    ] = None,
    store: StoreOption = STORE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is being trained and what is finished; exit status 2 if records are damaged."""
    from bench.sweep.state import progress, state
    from bench.sweep.store import Store

    found, records = state(Store(store))
    if study is not None:
        found["study"] = progress(study, records, data)
    print(_as_json(found) if as_json else "\n".join(cli_text.of_state(found)))
    _name_damage(found["damaged"])


def runs(
    store: StoreOption = STORE,
    algorithm: Annotated[str | None, typer.Option(help="Only runs of this algorithm.", show_default=False)] = None,
    data: Annotated[str | None, typer.Option(help="Only runs on this data set.", show_default=False)] = None,
    status: Annotated[str | None, typer.Option(help="Only finished or only diverged runs.", show_default=False)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only runs set so: lr=0.1, model.hidden=10, seed=1. May be repeated.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As csv.")] = False,
) -> None:
    """List finished runs, one a line: setting, lowest validation loss, mean test score at each checkpoint."""
    from bench.sweep.reading import names, summary

    records, damage = _existing(store).examined()
    named = {run: {"status": record["status"], **names(record)} for run, record in records.items()}
    asked = {"algorithm": algorithm, "data": data, "status": status}
    given = [(name, value) for name, value in asked.items() if value is not None]
    for name, value in [*given, *map(assignment, where or [])]:
        _refuse_unknown(name, value, list(named.values()))
        named = {run: each for run, each in named.items() if name in each and each[name] == value}
    listed = sorted((summary(records[run]) for run in named), key=_order)
    if as_json:
        print(_as_json(listed))
    elif as_csv:
        _print_csv(listed)
    else:
        print(*cli_text.of_runs(listed, named), sep="\n")
    _name_damage(damage)


def show(
    run: Annotated[str, typer.Argument(help="The run's hash, or how it begins.", show_default=False)],
    store: StoreOption = STORE,
    as_json: JsonOption = False,
    spec: Annotated[
        SpecForm | None, typer.Option(help="Print a study file that makes this run again.", show_default=False)
    ] = None,
) -> None:
    """Show all that is on record of a run."""
    records, damage = _existing(store).examined()
    found = [each for each in sorted(records) if each.startswith(run.lower())]
    if len(found) > 1:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise SpecError(f"run {run!r} may be {', '.join(found[:3])}{more}; give more of it")
    if found:
        record = records[found[0]]
        if spec is not None:
            print(_spec(record), end="")
        else:
            print(_as_json(record) if as_json else "\n".join(cli_text.of_run(record)))
    _name_damage(damage)
    if not found:
        raise SpecError(f"no run {run!r} in {store}; `silobench runs --store {store}` lists them")


def export(
    dest: Annotated[Path, typer.Argument(help="A new folder; for mlflow and optuna a new file.", show_default=False)],
    to: Annotated[Form, typer.Option(help="What to write.", show_default=False)],
    store: StoreOption = STORE,
    study: Annotated[
        Path | None, typer.Option(help="Only the runs of this study file; optuna needs one.", show_default=False)
    ] = None,
    data: DataOption = None,
) -> None:
    """Write records in the form of another tool."""
    place = _existing(store)
    with _new(dest) as temporary:
        if to is Form.OPTUNA:
            from bench.sweep.export import to_optuna

            if study is None:
                raise SpecError("optuna shows searches: name the study file whose they are with --study")
            spec, searches = _study(study, place, data)
            to_optuna.write(spec, searches, temporary)
"""
"""
