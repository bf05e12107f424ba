"""The commands that look into a store: what is being trained, what is finished, one run in full, and its export."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.cli import text
from bench.cli.data import DataOption, JsonOption, assignment
from bench.types import CHECKPOINTS, DataError, SpecError, content_hash, nearest

if TYPE_CHECKING:
    from bench.sweep.select import Search
    from bench.sweep.store import Record, Store

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the records of finished runs.")]
ProfileOption = Annotated[str, typer.Option("--profile", help="A shorter form of the study, see `silobench list`.")]
STORE = Path("results/runs")
PAPER = "paper"  # the profile that is the study's file as it stands


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
    profile: ProfileOption = PAPER,
    as_json: JsonOption = False,
) -> None:
    """Say what is being trained and what is finished; exit status 2 if records are damaged."""
    from bench.sweep.state import progress, state
    from bench.sweep.store import Store

    found, records = state(Store(store))
    if study is not None:
        from bench.spec import read

        found["study"] = progress(read(study, profile), records, data)
    print(_as_json(found) if as_json else "\n".join(text.of_state(found)))
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
    from bench.sweep.store import no_collection

    given = {"algorithm": algorithm, "data": data, "status": status}
    wanted = [(name, value) for name, value in given.items() if value is not None]
    with no_collection():
        listed, named, damage = _listed(_existing(store), [*wanted, *map(assignment, where or [])])
        if as_json:
            print(_as_json(listed))
        elif as_csv:
            _print_csv(listed)
        else:
            print(*text.of_runs(listed, named), sep="\n")
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
            print(_study_file(record), end="")
        else:
            print(_as_json(record) if as_json else "\n".join(text.of_run(record)))
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
    profile: ProfileOption = PAPER,
) -> None:
    """Write records in the form of another tool."""
    from bench.files import new_place
    from bench.spec import read
    from bench.sweep.study import on_record

    records = _existing(store).records()
    searches: dict[str, Search] = {}
    if study is not None:
        spec = read(study, profile)
        searches = on_record(spec, records, data)
        within = [record for search in searches.values() for seeds in search.records for record in seeds if record]
        records = {record["run"]: records[record["run"]] for record in within}
    elif to is Form.OPTUNA:
        raise SpecError("optuna shows searches: name with --study the study file whose they are")
    if not records:
        raise SpecError(f"{study or store}: no run is on record, there is nothing to export")
    chosen = [records[run] for run in sorted(records)]
    with new_place(dest) as place:
        match to:
            case Form.CSV | Form.PARQUET:
                from bench.sweep.export import to_tables

                to_tables.write(chosen, place, "csv" if to is Form.CSV else "parquet")
            case Form.TENSORBOARD:
                from bench.sweep.export import to_tensorboard

                to_tensorboard.write(chosen, place)
            case Form.MLFLOW:
                from bench.sweep.export import to_mlflow

                to_mlflow.write(chosen, place)
            case Form.OPTUNA:
                from bench.sweep.export import to_optuna

                to_optuna.write(spec, searches, place)
    print(dest)


def _existing(store: Path) -> Store:
    from bench.sweep.store import Store

    if not store.is_dir():
        raise SpecError(f"there is no store at {store}; name one with --store")
    return Store(store)


def _listed(
    store: Store, wanted: Iterable[tuple[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], list[str]]:
    """Summaries of the runs that were set as wanted, all that decided each by its hash, and the damage to the store."""
    from bench.sweep.reading import names, summary

    records, damage = store.examined()
    named = {run: {"status": record["status"], **names(record)} for run, record in records.items()}
    everything = list(named.values())
    for name, value in wanted:
        _refuse_unknown(name, value, everything)
        named = {run: each for run, each in named.items() if name in each and each[name] == value}
    listed = sorted((summary(records[run]) for run in named), key=lambda each: _order(each, named[each["run"]]))
    return listed, named, damage


def _refuse_unknown(name: str, value: Any, named: Collection[Mapping[str, Any]]) -> None:
    """Refuse a name that no run has, and a word that is no run's; that no run has a certain number is an answer."""
    known = {other for each in named for other in each}
    if known and name not in known:
        raise SpecError(f"no run has a {name!r}: {nearest(name, known)}")
    words = {each[name] for each in named if isinstance(each.get(name), str)}
    if words and isinstance(value, str) and value not in words:
        raise SpecError(f"no run has {name} = {value!r}: {nearest(value, words)}")


def _order(listed: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Runs of one algorithm with one setting stand together, by ascending hyper-parameters, and seeds of one follow."""
    setting = sorted(listed["setting"].items())
    options = [str(value) for name, value in named.items() if "." in name]
    return listed["data"], listed["algorithm"], listed["model"], setting, options, listed["seed"], listed["run"]


def _print_csv(listed: Sequence[Mapping[str, Any]]) -> None:
    own = ("run", "data", "algorithm", "model", "seed", "status", "loss", "metric")
    settings = sorted({name for each in listed for name in each["setting"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*own, *CHECKPOINTS, *settings])
    for each in listed:
        scores = (each["scores"].get(rule) for rule in CHECKPOINTS)
        writer.writerow([*(each[key] for key in own), *scores, *(each["setting"].get(name) for name in settings)])


def _study_file(record: Record) -> str:
    """The study that makes a run again, and what there is to know of it."""
    from bench.spec.one_run import study_text

    versions, named = record["versions"], content_hash(record["spec"]) == record["run"]
    lines = [
        f"# Made by silobench {versions['silobench']} with torch {versions['torch']}; the data's fingerprint is",
        f"# {record['spec']['data']['fingerprint']}.",
        *([] if named else ["# An older silobench named this run; run again it has another name."]),
        study_text(record["spec"], title=f"Run {record['run']}"),
    ]
    return "\n".join(lines)


def _as_json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


def _name_damage(damage: Sequence[str]) -> None:
    """What there is of the rest has been shown by now."""
    for each in damage[:-1]:
        print(f"error: {each}", file=sys.stderr)
    if damage:
        raise DataError(damage[-1])
