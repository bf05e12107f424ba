"""Published tables and figures that can be reproduced, with the runs, data and profiles that each one needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.registry import folder
from bench.sweep.cost import planned
from bench.types import SpecError, nearest

if TYPE_CHECKING:
    from bench.spec import Choice, Joined, StudySpec

Kind = Literal["tables", "figures"]
KINDS: tuple[Kind, ...] = ("tables", "figures")
READY = ("none needed", "all files")


def papers() -> dict[str, str]:
    """Return the folders of experiments/ by name, with the title of the paper ("" if there is none)."""
    from bench.spec.files.toml import parse

    folders = sorted({file.parent for file in folder("experiments").glob("*/*.toml")})
    files = {each.name: each / "paper.toml" for each in folders}
    return {name: parse(file).get("title", "") if file.is_file() else "" for name, file in files.items()}


def check_paper(paper: str) -> None:
    """Raise :class:`SpecError` for a name that is no folder of experiments/."""
    known = papers()
    if paper not in known:
        raise SpecError(f"unknown paper {paper!r}: {nearest(paper, known)}")


def select(
    entries: Iterable[Mapping[str, Any]],
    *,
    text: str = "",
    paper: str | None = None,
    data_set: str | None = None,
    ready: bool = False,
) -> list[Mapping[str, Any]]:
    """Return the :func:`exhibits` that match all filters, sorted by paper and number.

    ``text`` must occur in the name or the title, in upper or lower case. Raise :class:`SpecError` for an unknown
    ``paper`` or ``data_set``.
    """
    entries = list(entries)
    if paper is not None:
        check_paper(paper)
    used = {name for entry in entries for name in entry["data"]}
    if data_set is not None and data_set not in used:
        raise SpecError(f"no table or figure uses the data set {data_set!r}: {nearest(data_set, used)}")
    found = [
        entry
        for entry in entries
        if text.lower() in f"{entry['name']}  {entry['summary']}".lower()
        and paper in (None, entry["paper"])
        and (data_set is None or data_set in entry["data"])
        and (entry["ready"] or not ready)
    ]
    return sorted(found, key=lambda entry: (entry["paper"], _natural(entry["name"])))


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sorting key that orders "2" before "10"."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def exhibits(kind: Kind, root: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield every table or figure of experiments/ with the data, runs and profiles that it needs.

    ``root`` is a folder of raw data. ``paper`` is the folder of experiments/. ``ready`` is True if all data are on this
    machine, or no files are needed. ``seconds`` is by profile the time that all studies of the exhibit take on this
    machine with one worker, None if this was never planned. ``gpu_hours`` is always 0: training uses the CPU.
    """
    from bench.spec import claimed, joint, published

    known, needs = published("tables"), _Needs(root)
    for entry in published(kind).values():
        study = needs.studies[entry.file]
        methods = study.methods_behind([entry.id] * (kind == "tables"), [entry.id] * (kind == "figures"))
        # A figure of a partition needs data but no runs.
        data = [study.methods[method].data for method in methods or study.methods]
        yield needs.entry(entry.id, entry.title, entry.file, study.runs(methods), data, [entry.file])
    for name, joined in joint(kind).items():
        title = joined.tables[name].title if kind == "tables" else joined.figures[name].title
        tables = [column.table for column in joined.tables[_table_of(kind, name, joined)].columns]
        studies = [needs.studies[known[table].file] for table in tables]
        runs = sum(study.runs(study.methods_behind([id_], [])) for study, id_ in zip(studies, tables, strict=True))
        data = [study.dataset(study.tables[id_]) for study, id_ in zip(studies, tables, strict=True)]
        yield needs.entry(name, title, joined.file, runs, data, list(dict.fromkeys(study.file for study in studies)))
    for name, claims in claimed().items() if kind == "tables" else ():
        title = f"no results to reproduce; the audit checks {claims} claim{'s' * (claims != 1)}"
        yield needs.entry(name, title, folder("experiments") / name.partition("/")[0] / "audit.toml", 0, [], [])


def _table_of(kind: Kind, name: str, joined: Joined) -> str:
    return name if kind == "tables" else joined.figures[name].table


class _Needs:
    """All studies of experiments/, with their profiles and planned times."""

    def __init__(self, root: Path | None) -> None:
        from bench.spec import profile_names, published, read

        self.root = root
        files = [entry.file for kind in KINDS for entry in published(kind).values()]
        self.studies: dict[Path, StudySpec] = {file: read(file) for file in dict.fromkeys(files)}
        self.seconds = {
            file: {profile: planned.seconds(file, profile) for profile in profile_names(file)} for file in self.studies
        }

    def entry(
        self, name: str, title: str, file: Path, runs: int, data: Iterable[Choice], studies: Sequence[Path]
    ) -> dict[str, Any]:
        """Return the entry of a table or figure of ``file`` that needs these data and study files."""
        from bench.data.files import cards
        from bench.spec import PAPER, options_by_name

        times = [self.seconds[study] for study in studies] or [{PAPER: 0.0}]
        profiles = [profile for profile in times[0] if all(profile in each for each in times)]
        needed = {each: (cards.read(each), options) for each, options in options_by_name(data).items()}
        states = {
            each: card.external.rstrip(".") or card.at_hand(self.root, *options)
            for each, (card, options) in needed.items()
        }
        return {
            "name": name,
            "summary": title,
            "paper": file.parent.name,
            "runs": runs,
            "gpu_hours": 0,
            "data": states,
            "profiles": profiles,
            "seconds": {profile: _total(each[profile] for each in times) for profile in profiles},
            "ready": all(state in READY for state in states.values()),
        }


def _total(seconds: Iterable[float | None]) -> float | None:
    """Return the sum, None if one value is unknown."""
    known = list(seconds)
    return None if None in known else sum(each for each in known if each is not None)
