"""Published tables and figures that can be reproduced, with the runs, data and profiles that each one needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.registry import folder
from bench.sweep.cost import planned
from bench.types import SpecError, nearest

if TYPE_CHECKING:
    from bench.spec import Choice

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
    from bench.spec import claimed, joint, profile_names, published, read

    known = published("tables")
    studies = {entry.file: read(entry.file) for each in KINDS for entry in published(each).values()}
    profiles = {file: profile_names(file) for file in studies}
    for entry in published(kind).values():
        study = studies[entry.file]
        methods = study.methods_behind([entry.id] * (kind == "tables"), [entry.id] * (kind == "figures"))
        # A figure of a partition needs data but no runs.
        data = [study.methods[method].data for method in methods or study.methods]
        yield _needs(
            entry.id, entry.title, entry.file, study.runs(methods), data, profiles[entry.file], [entry.file], root
        )
    for name, joined in joint(kind).items():
        section = joined.tables[name if kind == "tables" else joined.figures[name].table]
        title = joined.tables[name].title if kind == "tables" else joined.figures[name].title
        behind = [(studies[known[column.table].file], column.table) for column in section.columns]
        runs = sum(study.runs(study.methods_behind([table], [])) for study, table in behind)
        data = [study.dataset(study.tables[table]) for study, table in behind]
        common = [each for each in profiles[behind[0][0].file] if all(each in profiles[s.file] for s, _ in behind)]
        yield _needs(name, title, joined.file, runs, data, common, {study.file for study, _ in behind}, root)
    for name, claims in claimed().items() if kind == "tables" else ():
        title = f"no results to reproduce; the audit checks {claims} claim{'s' * (claims != 1)}"
        file = folder("experiments") / name.partition("/")[0] / "audit.toml"
        yield _needs(name, title, file, 0, [], ["paper"], [], root)


def _needs(
    name: str,
    title: str,
    file: Path,
    runs: int,
    data: Iterable[Choice],
    profiles: Sequence[str],
    studies: Collection[Path],
    root: Path | None,
) -> dict[str, Any]:
    from bench.data.files import cards
    from bench.spec import options_by_name

    needed = {each: (cards.read(each), options) for each, options in options_by_name(data).items()}
    states = {
        each: card.external.rstrip(".") or card.at_hand(root, *options) for each, (card, options) in needed.items()
    }
    times = {profile: [planned.seconds(study, profile) for study in studies] for profile in profiles}
    return {
        "name": name,
        "summary": title,
        "paper": file.parent.name,
        "runs": runs,
        "gpu_hours": 0,
        "data": states,
        "profiles": list(profiles),
        "seconds": {profile: None if None in took else sum(filter(None, took)) for profile, took in times.items()},
        "ready": all(state in READY for state in states.values()),
    }
