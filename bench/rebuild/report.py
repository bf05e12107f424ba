"""Tables, figures and the report site rebuilt from records, without training or downloads."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from bench.data.files.locate import downloads_forbidden
from bench.files import check_writable
from bench.rebuild import shown
from bench.rebuild.collect import FilledStudy, filled
from bench.rebuild.inputs import counts
from bench.rebuild.record_sets import RecordSet, experiment_files
from bench.report import publish
from bench.report.site import pages
from bench.report.site.content import Exhibit, without_profile
from bench.report.site.document import documents, write
from bench.report.tables import render
from bench.report.tables.table import Table
from bench.spec import Joined, joint, profile_names
from bench.sweep.store import DamageError, Store
from bench.types import DataError, SilobenchError, SpecError, nearest


def rebuild(
    sets: Sequence[RecordSet],
    out: Path,
    site: Path,
    data: Path | None = None,
    profiles: Collection[str] | None = None,
) -> bool:
    """Write every table and figure that the records fill, and the report site; print the paths of all files.

    Joint tables go below ``out``; they are made when all of their columns are. ``profiles`` None means all. Data sets
    without raw files, and those of published records, are described by the records. Return False if a cell is missing
    or diverged; raise :class:`SpecError` for a profile that no study has.

    If records are damaged or a study cannot be read, everything else is written, except for files that would show less
    than before (:mod:`bench.rebuild.shown`). Then raise :class:`DamageError` or :class:`DataError`.
    """
    known: set[str] = set()
    for each in sets:
        for file in each.files():
            with suppress(SilobenchError):  # reported below
                known.update(profile_names(file))
    for profile in profiles or ():
        if profile not in known:
            raise SpecError(f"no study has a profile {profile!r}: {nearest(profile, known)}")
    for folder in (out, site):
        check_writable(folder)
    with downloads_forbidden("a report"):
        collection = _Collection(data)
        for each in sets:
            collection.add(each, profiles)
        collection.add_joint(out)
    gathered = pages.gather(collection.made)
    made = documents(gathered)
    if kept := shown.better_pages(site, made, collection.incomplete) if collection.failed else []:
        made = documents(gathered, [name for name in kept if name not in made])
    for name in kept:
        _report_kept(site / name)
        made.pop(name, None)
    print(*write(made, site), sep="\n")
    if collection.damage:
        raise DamageError(collection.damage)
    if collection.failed:
        raise DataError("some studies are left out for the reasons above; all others are in the report")
    return collection.complete


def _report_kept(file: Path) -> None:
    print(f"{file}: kept, it shows results that are now missing; delete it to replace it", file=sys.stderr)


class _Collection:
    """Everything made so far: tables by id (profile included), and what each page shows."""

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.made: dict[Path, pages.Made] = defaultdict(pages.Made)
        self.tables: dict[str, Table] = {}
        self.complete = True
        self.damage: list[str] = []  # a message for each damaged file of records
        self.failed = False  # whether results may be missing that an earlier report shows
        self.incomplete: set[str] = set()  # ids of tables and figures with a missing run

    def add(self, records: RecordSet, profiles: Collection[str] | None) -> None:
        """Write the tables and figures of one record set."""
        found, damage = Store(records.store).read_all()
        self.damage += damage
        self.failed |= bool(damage)
        metadata = records.metadata(found, self.data)
        for file in records.files():
            try:
                studies = filled(file, found, metadata, profiles)
            except SilobenchError as error:
                print(f"{file}: left out, {error}", file=sys.stderr)
                self.failed = True
                continue
            for each in studies:
                self._add_study(each, records)
                if damage and each.lacking:
                    what = f"runs of {', '.join(each.lacking)} are missing"
                    print(f"{file}: {what}, they may be in a damaged file", file=sys.stderr)
            if damage and not studies and file not in experiment_files():
                print(f"{file}: left out, its runs are missing or in a damaged file", file=sys.stderr)

    def _add_study(self, each: FilledStudy, records: RecordSet) -> None:
        study = each.study
        made = self.made[study.file.parent if study.file in experiment_files() else study.file]
        made.title = study.title
        made.stores.add(records.store)
        self.incomplete.update(each.lacking)
        tables: dict[str, Table] = {}
        for name in each.tables:
            if study.stem(name) in self.tables:
                print(f"{study.file}: table {name!r} left out; another study has a table of this id", file=sys.stderr)
                continue
            tables[name] = publish.table(study, each.chosen, name)
            exhibit = Exhibit(tables[name], each.chosen, study.tables[name].printed)
            self._keep(made, exhibit, records.stem(study.stem(name)))
        for name in each.figures:
            stem = records.stem(study.stem(name))
            old = stem.with_name(f"{stem.name}.png")
            if self.failed and study.stem(name) in self.incomplete and old.exists():
                _report_kept(old)
                continue
            try:
                picture = publish.figure(study, name, each.searches, each.chosen, tables, stem, counts(self.data))
            except SilobenchError as error:
                kept = publish.drawn_before(study, name, each.chosen, stem)
                why = error if kept is None else "its data are not on this machine; the existing file is shown"
                print(f"figure {study.stem(name)}: not drawn, {why}", file=sys.stderr)
                if kept is None:
                    continue
                picture = kept
            made.pictures.append(picture)
            made.drawn.add(name)

    def _keep(self, made: pages.Made, exhibit: Exhibit, stem: Path) -> None:
        table = exhibit.table
        self.tables[table.spec.id] = table
        self.complete &= not table.incomplete
        made.exhibits.append(exhibit)
        csv = stem.with_name(f"{stem.name}.csv")
        new = "" if table.spec.id in self.incomplete else render.content(table, "csv").decode()
        if self.failed and shown.better_table(csv, new):
            _report_kept(csv)
        else:
            print(*render.write(table, stem), sep="\n")

    def add_joint(self, out: Path) -> None:
        """Write the joint tables whose columns have all been made, and their critical-difference diagrams."""
        for profile in dict.fromkeys(table.spec.profile for table in self.tables.values()):
            known = {
                without_profile(name, profile): table
                for name, table in self.tables.items()
                if table.spec.profile == profile
            }
            for name, joined in joint("tables").items():
                wanted = {column.table for column in joined.tables[name].columns}
                if wanted <= known.keys():
                    self._add_joint(joined, name, {each: known[each] for each in wanted}, out)

    def _add_joint(self, joined: Joined, name: str, columns: dict[str, Table | str], out: Path) -> None:
        made = self.made[joined.file.parent]
        table = publish.joint_table(joined, name, columns)
        if self.incomplete & {each.spec.id for each in columns.values() if isinstance(each, Table)}:
            self.incomplete.add(table.spec.id)
        self._keep(made, Exhibit(table), out / table.spec.id)
        # Ranks need every run.
        for figure in joined.figures.values() if not table.incomplete else ():
            if figure.table == name:
                made.pictures.append(publish.joint_figure(joined, figure.id, table, out))
                made.drawn.add(figure.id)
