"""Own records compared with published records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from bench.data.files.locate import downloads_forbidden
from bench.rebuild.collect import filled
from bench.rebuild.record_sets import RecordSet
from bench.report import publish
from bench.report.tables.table import Table
from bench.report.verify import RunDifference, Verification, compare_environments, compare_runs, compare_tables
from bench.sweep.store import Store
from bench.types import SpecError, nearest


def verify(
    ours: RecordSet,
    published: Sequence[RecordSet],
    tolerance: float,
    data: Path | None = None,
    tables: Collection[str] = (),
) -> Verification:
    """Compare own records with ``published`` ones; ``tables`` (ids, or how they begin) restricts the tables.

    Raise :class:`SpecError` for a name that no published table has, and if no table can be compared.
    """
    with downloads_forbidden("a comparison of records"):
        found = Store(ours.store).records()
        metadata = ours.metadata(found, data)
        pairs: list[tuple[Table, Table]] = []
        runs: list[RunDifference] = []
        missing: list[str] = []
        known: list[str] = []
        for each in published:
            theirs = Store(each.store).records()
            runs += compare_runs(found, theirs, tolerance)
            for file in each.files():
                own = {study.study.profile: study for study in filled(file, found, metadata)}
                for study in filled(file, theirs):
                    for name in study.tables:
                        known.append(study.study.stem(name))
                        if tables and not known[-1].startswith(tuple(tables)):
                            continue
                        same = own.get(study.study.profile)
                        if same is None or name not in same.tables:
                            missing.append(known[-1])
                            continue
                        rebuilt, printed = (publish.table(which.study, which.chosen, name) for which in (same, study))
                        pairs.append((rebuilt, printed))
    for name in tables:
        if not any(each.startswith(name) for each in known):
            raise SpecError(f"no published table {name!r}: {nearest(name, known)}")
    if not pairs:
        raise SpecError(f"{ours.store}: no published table has its runs here; run `silobench reproduce-table` first")
    cells = tuple(cell for rebuilt, printed in pairs for cell in compare_tables(rebuilt, printed, tolerance))
    return Verification(tuple(runs), cells, tuple(missing), tolerance, *compare_environments(pairs))
