"""Pages of the report, gathered from the tables and figures that were made of each paper or study."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

from bench.registry import folder
from bench.report.audit import findings
from bench.report.site.content import Exhibit, Page, Picture, TrainingTime
from bench.report.site.totals import totals
from bench.report.tables.table import TableSpec
from bench.spec import Published, joint, published
from bench.spec.files.toml import parse
from bench.sweep.store import Store

RUN = re.compile(rb'"run":"(\w+)"')


@dataclass
class Made:
    """Tables and figures made of one folder of experiments/ or one study of your own, and the stores they are from.

    ``title`` is that of your own study. ``drawn`` holds the ids of all figures made, without profiles.
    """

    title: str = ""
    exhibits: list[Exhibit] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    drawn: set[str] = field(default_factory=set)
    stores: set[Path] = field(default_factory=set)


def gather(made: Mapping[Path, Made]) -> list[Page]:
    """Return a page for every folder of experiments/ and every study of your own.

    Pages compared with printed numbers come first, then others with tables, then those without. ``made`` is by folder,
    or by the file of your own study.
    """
    folders = {file.parent for file in folder("experiments").glob("*/*.toml")} | made.keys()
    tables, figures = _entries("tables"), _entries("figures")
    names = _names(folders)
    pages = [
        _page(
            place,
            names[place],
            made.get(place, Made()),
            [entry for entry in tables if entry.file.parent == place],
            [entry for entry in figures if entry.file.parent == place],
        )
        for place in sorted(folders)
    ]
    return sorted(pages, key=lambda page: (not page.exhibits, totals(page.exhibits) is None))


def costs(store: Path, runs: Collection[str]) -> tuple[TrainingTime, ...]:
    """Return the training times of the run batches that hold any of ``runs``, in the order they were trained."""
    wanted = {run.encode() for run in runs}
    return tuple(
        TrainingTime(line["machine"], line["runs"], line["seconds"])
        for line in Store(store).costs()
        if (records := store / "records" / f"{line['population']}.jsonl").exists()
        if wanted & set(RUN.findall(records.read_bytes()))
    )


def _entries(kind: Literal["tables", "figures"]) -> list[Published]:
    """Return every table or figure of experiments/ in the order of its paper, those over several studies included."""
    several = [Published(name, getattr(joined, kind)[name].title, joined.file) for name, joined in joint(kind).items()]
    return sorted([*published(kind).values(), *several], key=_place)


def _names(places: Collection[Path]) -> dict[Path, str]:
    """Return the name of every page, with a number after a name of your own study that another page has."""
    own = {place for place in places if place.suffix == ".toml"}
    names = {place: place.name for place in places if place not in own}
    taken = {"index", *names.values()}  # index.html is the overview
    for place in sorted(own):
        candidates = (f"{place.stem}-{number}" if number > 1 else place.stem for number in count(1))
        names[place] = next(name for name in candidates if name not in taken)
        taken.add(names[place])
    return names


def _page(place: Path, name: str, made: Made, tables: Sequence[Published], figures: Sequence[Published]) -> Page:
    facts = parse(file) if (file := place / "paper.toml").exists() else {}
    shown = {exhibit.id for exhibit in made.exhibits}
    absent = [entry.title for entry in tables if entry.id not in shown]
    absent += [entry.title for entry in figures if entry.id not in made.drawn]
    runs = {record["run"] for exhibit in made.exhibits for record in exhibit.records}
    return Page(
        paper=name,
        title=facts.get("title") or made.title or next((entry.title for entry in tables), place.name),
        exhibits=tuple(sorted(made.exhibits, key=lambda exhibit: (exhibit.joint, _place(exhibit.table.spec)))),
        pictures=tuple(sorted(made.pictures, key=_place)),
        absent=tuple(dict.fromkeys(absent)),
        notes=file.read_text(encoding="utf-8") if (file := place / "README.md").exists() else "",
        audit=findings.audit_folder(place) if (place / "audit.toml").exists() else None,
        costs=tuple(cost for store in sorted(made.stores) for cost in costs(store, runs)),
    )


def _place(named: Published | Picture | TableSpec) -> list[str | int]:
    """Return a sort key by the numbers in an id: Table 2 before Table 10, A.2 after both."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", named.id)]
