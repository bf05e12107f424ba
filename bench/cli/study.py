"""Commands on a user's study file: `plan` and `sweep`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.format import as_json, count, duration
from bench.cli.options import (
    OUT,
    PAPER,
    STORE,
    DataOption,
    JsonOption,
    OutOption,
    ProfileOption,
    StoreOption,
    StudyArgument,
)
from bench.cli.training import TrainingOptions, finish, with_training_options
from bench.reproduce import Folders, run_and_publish

if TYPE_CHECKING:
    from bench.sweep.cost.estimate import StudyEstimate


def plan(
    study: StudyArgument,
    store: StoreOption = STORE,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=0, help="Plan for this number of worker processes.")
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Estimate runs, downloads, time, memory and disk space of a study from a short calibration."""
    from bench.spec import read
    from bench.sweep.cost import planned
    from bench.sweep.cost.estimate import estimate
    from bench.sweep.store import Store

    found = estimate(read(study, profile), Store(store), root=data)
    planned.remember(study, profile, found)
    print(as_json(_document(found, workers)) if json else _text(found, workers))


@with_training_options
def sweep(
    study: StudyArgument,
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Train nothing; print what `silobench plan` does.")
    ] = False,
    *,
    training: TrainingOptions,
) -> None:
    """Run a study and write its tables and figures; without tables, write one table of all methods."""
    from bench.spec import read

    if dry_run:
        plan(study, store, data, profile, training.workers)
        return
    folders = Folders(store, out, data)
    spec = read(study, profile).with_a_table()
    finish(run_and_publish(spec, spec.tables, spec.figures, folders, training.runners(folders)), store)


def _text(found: StudyEstimate, workers: int) -> str:
    """Return the estimate as lines, for a number of worker processes (0: none)."""
    lines = [found.title, f"  runs         {found.runs:,}, {found.runs - found.to_train:,} of them finished"]
    for each in found.missing:
        size = "" if each.size is None else f", {each.size / 1e6:,.1f} MB"
        lines.append(f"  download     {each.data}: {', '.join(each.files)}{size}")
    lines += [f"  note         {note}" for note in found.notes]
    if found.seconds is None:
        commands = ", ".join(f"`silobench data prepare {each.data}`" for each in found.missing)
        return "\n".join([*lines, f"  time         unknown until the data are on this machine; run {commands}"])
    share = f" with {count(workers, 'worker')}" if workers > 1 else ""
    return "\n".join([
        *lines,
        f"  run batches  {len(found.seconds)}; the time of {found.timed} was measured on similar batches",
        f"  time         about {duration(found.wall(max(workers, 1)))}{share}",
        f"  memory       about {found.memory / 1e9:.1f} GB per worker",
        f"  disk         about {found.disk / 1e6:.1f} MB of records",
    ])  # fmt: skip


def _document(found: StudyEstimate, workers: int) -> dict[str, object]:
    """Return the estimate for JSON, with times in seconds and sizes in bytes."""
    seconds = None if found.seconds is None else found.wall(max(workers, 1))
    run_batches = None if found.seconds is None else len(found.seconds)
    return {**asdict(found), "run_batches": run_batches, "seconds": seconds}
