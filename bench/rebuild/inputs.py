"""Inputs of joint tables and of partition figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report import publish
from bench.report.figures.study_figures import Counts
from bench.report.tables.table import Table
from bench.spec import Choice, JointSection, published, read
from bench.sweep.store import DamageError, Store
from bench.sweep.study import run_study
from bench.types import DataError

if TYPE_CHECKING:
    from bench.sweep.runner import Runner


def joint_columns(
    section: JointSection, profile: str, store: Path, data: Path | None, runner: Runner | None = None
) -> dict[str, Table | str]:
    """Return the tables that a joint table consists of, by id, or the reason why one is missing.

    Without a ``runner`` only finished runs are used. Raise :class:`DamageError` if damaged records hide runs.
    """
    known = published("tables")
    columns: dict[str, Table | str] = {}
    for name in dict.fromkeys(column.table for column in section.columns):
        study = read(known[name].file, profile)
        methods = study.methods_behind([name], [])
        try:
            searches = run_study(study, Store(store), methods=methods, root=data, runner=runner)
        except DamageError:
            raise  # a column that is hidden by damage is not missing: no table may replace one that has it
        except DataError as error:
            columns[name] = str(error)
        else:
            columns[name] = publish.table(study, publish.chosen(study, searches), name)
    return columns


def counts(root: Path | None) -> Counts:
    """Return a function that counts a data set's training samples by client and class, for partition figures."""

    def count(data: Choice) -> tuple[Sequence[Sequence[int]], Sequence[str], bool]:
        from bench.data import load_dataset
        from bench.data.class_counts import class_counts

        federation = load_dataset(data.name, root, **data.options)
        return class_counts(federation), [client.name for client in federation.clients], federation.synthetic

    return count
