"""Reproduction of tables and figures: run what their studies lack, then write them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.files import check_writable
from bench.rebuild.exhibits import KINDS, Kind, check_paper, exhibits
from bench.types import SpecError, nearest

if TYPE_CHECKING:
    from bench.spec import StudySpec
    from bench.sweep.runner import Runner

# Opens a runner. It is closed before results are printed, because the live view would redirect standard output.
Training = Callable[[], AbstractContextManager["Runner"]]


@dataclass(frozen=True)
class Folders:
    """Folders of records (``store``), of tables and figures (``out``) and of raw data (``data``)."""

    store: Path
    out: Path
    data: Path | None


def reproduce(
    kind: Kind, name: str, profile: str, folders: Folders, training: Training, *, partial: bool = False
) -> bool:
    """Run what a table or figure of experiments/ lacks and write it; return False if a cell is missing.

    The number of a printed table ("fenda/2") means all tables made for it ("fenda/2-heart", ...). For a printed table
    without results ("fenda/6") the findings of the audit are printed. A column of a joint table whose data are missing
    is shown as missing; with ``partial`` ranks are then computed over the other columns.
    """
    from bench.spec import claimed, joint, published, read

    known = published(kind)
    if name in known:
        study = read(known[name].file, profile)
        return run_and_publish(study, [name] * (kind == "tables"), [name] * (kind == "figures"), folders, training)
    joined = joint(kind)
    if name not in joined:
        parts = [each for each in (*known, *joined) if each.startswith(f"{name}-")]
        if parts:
            return _reproduce_ready(kind, parts, profile, folders, training, partial=partial)
        if kind == "tables" and name in claimed():
            _print_findings(name)
            return True
        hint = nearest(name, [*known, *joined])
        raise SpecError(f"unknown {kind[:-1]} {name!r} (see `silobench list {kind}`): {hint}")
    from bench.rebuild.inputs import joint_columns
    from bench.report import publish

    check_writable(folders.out)
    file = joined[name]
    section = file.tables[name if kind == "tables" else file.figures[name].table]
    with training() as runner:
        columns = joint_columns(section, profile, folders.store, folders.data, runner)
    write = publish.joint if kind == "tables" else publish.diagram
    return write(file, name, columns, folders.out, partial=partial)


def reproduce_paper(paper: str, profile: str, folders: Folders, training: Training) -> bool:
    """Run and write every table and figure of a paper whose data are on this machine; report those left out.

    Return False if one is left out or a cell is missing.
    """
    check_paper(paper)
    complete = True
    for kind in KINDS:
        names = [entry["name"] for entry in exhibits(kind) if entry["paper"] == paper and entry["data"]]
        complete &= _reproduce_ready(kind, names, profile, folders, training)
    return complete


def run_and_publish(
    study: StudySpec, tables: Iterable[str], figures: Iterable[str], folders: Folders, training: Training
) -> bool:
    """Run what tables and figures (ids) of a study lack and write them; return False if a cell is missing.

    Raise :class:`SpecError` before training if files of another study would be overwritten.
    """
    from bench.rebuild.inputs import counts
    from bench.report import origins, publish
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    tables, figures = list(tables), list(figures)
    methods = study.methods_behind(tables, figures)
    stems = [study.stem(name) for name in (*tables, *figures)]
    check_writable(folders.out)
    origins.check(folders.out, stems, study.file)
    with training() as runner:
        searches = run_study(study, Store(folders.store), methods=methods, root=folders.data, runner=runner)
    complete = publish.write(study, searches, tables, figures, folders.out, counts(folders.data))
    origins.note(folders.out, stems, study.file)
    return complete


def _reproduce_ready(
    kind: Kind, names: Collection[str], profile: str, folders: Folders, training: Training, *, partial: bool = False
) -> bool:
    """Reproduce those tables or figures whose data are on this machine; return False if one is left out.

    Those whose runs are hidden by damaged records are left out.
    """
    from bench.sweep.store import DamageError

    complete = True
    for entry in (entry for entry in exhibits(kind, folders.data) if entry["name"] in names):
        reason = f"no profile {profile!r}" if entry["ready"] else "data files are missing"
        if entry["ready"] and profile in entry["profiles"]:
            try:
                complete &= reproduce(kind, entry["name"], profile, folders, training, partial=partial)
                continue
            except DamageError as error:
                reason = str(error)
        print(f"{entry['name']}: left out, {reason}", file=sys.stderr)
        complete = False
    return complete


def _print_findings(name: str) -> None:
    """Print the findings of the audit on a printed table."""
    from bench.report.audit.findings import audit, of_table
    from bench.report.audit.text import render

    print(render(of_table(audit(name.partition("/")[0]), name), full=True))
