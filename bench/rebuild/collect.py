"""Studies whose records are in a store, with the tables and figures that these records can fill."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.report import publish
from bench.spec import StudySpec, profile_names, read
from bench.sweep.recorded_metadata import NoRecordError, RecordedMetadata
from bench.sweep.search.method import Records
from bench.sweep.search.selection import SearchResult
from bench.sweep.study import Lookup, recorded
from bench.types import Chosen

Kind = Literal["tables", "figures"]


@dataclass(frozen=True)
class FilledStudy:
    """A study in one profile, its finished runs and chosen settings by method, and what they can fill (ids)."""

    study: StudySpec
    searches: Mapping[str, SearchResult]
    chosen: Mapping[str, Chosen]
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    @property
    def lacking(self) -> list[str]:
        """The ids of its tables and figures, profile included, behind which a run of any setting is missing."""
        shown = [(name, self.study.methods_behind([name], [])) for name in self.tables]
        shown += [(name, self.study.methods_behind([], [name])) for name in self.figures]
        return [self.study.stem(name) for name, used in shown if any(self.searches[each].missing for each in used)]


def filled(
    file: Path, records: Records, metadata: Lookup | None = None, profiles: Collection[str] | None = None
) -> list[FilledStudy]:
    """Return the study of ``file`` in each of its ``profiles`` (None: all) for which the ``records`` fill something.

    A table or figure is included when every method behind it has a record. If a profile has all the runs that it
    shows, profiles that lack some are left out, and so are those whose runs are all part of another profile.
    Otherwise the profile with the largest share of its runs is kept. Without ``metadata``, the data sets are
    described by the records themselves.

    Raise :class:`bench.types.DataError` where the records hold several versions of a data set.
    """
    known = RecordedMetadata(records.values())
    found: list[FilledStudy] = []
    for profile in profile_names(file):
        if profiles is not None and profile not in profiles:
            continue
        study = read(file, profile)
        study = study if study.figures else study.with_a_table()
        if not any(known.holds(method.data.name) for method in study.methods.values()):
            continue
        try:
            searches = recorded(study, records, metadata=metadata or known)
        except NoRecordError:
            continue
        found.append(FilledStudy(study, searches, publish.chosen(study, searches)))
    tables, figures = _shown(found, "tables"), _shown(found, "figures")
    return [
        FilledStudy(each.study, each.searches, each.chosen, tables[number], figures[number])
        for number, each in enumerate(found)
        if tables[number] or figures[number]
    ]


def _shown(profiles: Sequence[FilledStudy], kind: Kind) -> list[tuple[str, ...]]:
    """Return the ids of tables or figures to show of each profile of a study."""
    shown: list[list[str]] = [[] for _ in profiles]
    for name in dict.fromkeys(name for each in profiles for name in getattr(each.study, kind)):
        runs = {
            number: found
            for number, each in enumerate(profiles)
            if name in getattr(each.study, kind) and (found := _runs_behind(each, kind, name)) is not None
        }
        for number in _worth_showing(runs):
            shown[number].append(name)
    return [tuple(names) for names in shown]


@dataclass(frozen=True)
class _Behind:
    """The finished runs behind a table or figure, of all settings; ``share`` of those of the chosen settings."""

    runs: frozenset[str]
    share: float


def _runs_behind(profile: FilledStudy, kind: Kind, name: str) -> _Behind | None:
    """Return the finished runs behind a table or figure; None if one of its methods has none."""
    study, searches = profile.study, profile.searches
    methods = study.methods_behind([name], []) if kind == "tables" else study.methods_behind([], [name])
    methods = methods or set(study.methods)  # no runs are behind a figure of a partition
    if not all(any(map(any, searches[method].records)) for method in methods):
        return None
    tried = [record for method in methods for seeds in searches[method].records for record in seeds]
    used = [record for method in methods for record in profile.chosen[method].records]
    runs = frozenset(record["run"] for record in tried if record is not None)
    return _Behind(runs, sum(record is not None for record in used) / len(used))


def _worth_showing(found: Mapping[int, _Behind]) -> list[int]:
    """Return the numbers of the profiles to show, see :func:`filled`."""
    complete = {number: each.runs for number, each in found.items() if each.share == 1}
    if not complete:
        return [max(found, key=lambda number: found[number].share)] if found else []
    return [
        number
        for number, runs in complete.items()
        if not any(runs < other or (runs == other and earlier < number) for earlier, other in complete.items())
    ]
