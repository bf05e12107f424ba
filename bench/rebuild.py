"""Tables, figures and the report site rebuilt from the records of a store, without training or downloads."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data.files import download
from bench.report import publish
from bench.report.figures.study_figures import Counts
from bench.report.site import pages
from bench.report.site.document import write
from bench.report.tables.table import Table
from bench.spec import Choice, JointSection, joint, published, read
from bench.sweep.store import Store
from bench.sweep.study import run_study
from bench.types import DataError

if TYPE_CHECKING:
    from bench.sweep.runner import Runner


def rebuild(profile: str, store: Path, out: Path, data: Path | None, site: Path) -> bool:
    """Write every table and figure with records for all its methods, and the report site; print the files.

    Return False if a cell is missing or diverged.
    """
    with download.forbidden("a report"):
        return _rebuild(profile, store, out, data, site)


def _rebuild(profile: str, store: Path, out: Path, data: Path | None, site: Path) -> bool:
    made: dict[Path, pages.Made] = defaultdict(pages.Made)
    done: set[str] = set()
    complete = True
    for file in dict.fromkeys(entry.file for entry in (*published("tables").values(), *published("figures").values())):
        study = read(file, profile)
        try:
            searches = run_study(study, Store(store), root=data)
        except DataError as error:
            print(f"{file}: left out, {error}", file=sys.stderr)
            continue
        begun = {name for name, search in searches.items() if any(map(any, search.records))}
        tables = [name for name in study.tables if study.methods_behind([name], []) <= begun]
        figures = [name for name in study.figures if begun and study.methods_behind([], [name]) <= begun]
        complete &= publish.write(study, searches, tables, figures, out, counts(data), made[file.parent])
        done |= set(tables)
    for name, joined in joint("tables").items():
        section = joined.tables[name]
        if done & {column.table for column in section.columns}:
            columns, into = joint_columns(section, profile, store, data), made[joined.file.parent]
            whole = publish.joint(joined, name, columns, out, into=into)
            # Ranks need every run.
            for figure in joined.figures.values() if whole else ():
                if figure.table == name:
                    publish.diagram(joined, figure.id, columns, out, into=into)
            complete &= whole
    print(*write(pages.gather(made, store), site), sep="\n")
    return complete


def joint_columns(
    section: JointSection, profile: str, store: Path, data: Path | None, runner: Runner | None = None
) -> dict[str, Table | str]:
    """Return the tables that a joint table consists of, by id, or the reason why one is missing.

    Without a ``runner`` only finished runs are used.
    """
    known = published("tables")
    columns: dict[str, Table | str] = {}
    for name in dict.fromkeys(column.table for column in section.columns):
        study = read(known[name].file, profile)
        methods = study.methods_behind([name], [])
        try:
            searches = run_study(study, Store(store), methods=methods, root=data, runner=runner)
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
