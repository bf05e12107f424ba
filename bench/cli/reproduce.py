"""Commands that re-run published results: `reproduce-table`, `reproduce-figure` and `reproduce-paper`."""

from __future__ import annotations

from typing import Annotated

import typer

from bench import reproduce
from bench.cli.options import (
    OUT,
    PAPER,
    STORE,
    DataOption,
    OutOption,
    PartialOption,
    ProfileOption,
    StoreOption,
)
from bench.cli.training import TrainingOptions, finish, with_training_options
from bench.rebuild.exhibits import Kind
from bench.reproduce import Folders

QUICKSTART = "quickstart"


@with_training_options
def reproduce_table(
    table: Annotated[str, typer.Argument(help="Re-run this table; see `silobench list tables`.")] = QUICKSTART,
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    partial: PartialOption = False,
    *,
    training: TrainingOptions,
) -> None:
    """Re-run a published table and compare it with print; finished runs are not repeated."""
    _reproduce("tables", table, profile, Folders(store, out, data), training, partial=partial)


@with_training_options
def reproduce_figure(
    figure: Annotated[
        str, typer.Argument(help="Re-run this figure; see `silobench list figures`.", show_default=False)
    ],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    partial: PartialOption = False,
    *,
    training: TrainingOptions,
) -> None:
    """Re-run a published figure; finished runs are not repeated."""
    _reproduce("figures", figure, profile, Folders(store, out, data), training, partial=partial)


@with_training_options
def reproduce_paper(
    paper: Annotated[str, typer.Argument(help="Re-run this folder of experiments/, e.g. fenda.", show_default=False)],
    store: StoreOption = STORE,
    out: OutOption = OUT,
    data: DataOption = None,
    profile: ProfileOption = PAPER,
    *,
    training: TrainingOptions,
) -> None:
    """Re-run every table and figure of a paper whose data are on this machine; name those left out."""
    folders = Folders(store, out, data)
    finish(reproduce.reproduce_paper(paper, profile, folders, training.runners(folders)), store)


def _reproduce(
    kind: Kind, name: str, profile: str, folders: Folders, training: TrainingOptions, *, partial: bool
) -> None:
    finish(reproduce.reproduce(kind, name, profile, folders, training.runners(folders), partial=partial), folders.store)
