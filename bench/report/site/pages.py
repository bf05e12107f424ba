"""What goes into the report: a page for each folder of experiments/, of what was made there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.registry import folder
from bench.report.audit import findings
from bench.report.site.document import Exhibit, Page, Picture, TrainingTime
from bench.report.tables.table import Table, TableSpec
from bench.spec import (
    AlphaSection,
    BarsSection,
    ClientsSection,
    CurvesSection,
    HeatmapSection,
    LayersSection,
    PartitionSection,
    Published,
    RanksSection,
    TrajectoriesSection,
    joint,
    published,
)
from bench.spec.exhibits import FigureSection
from bench.spec.toml import parse
from bench.sweep.store import Store

RUN = re.compile(rb'"run":"(\w+)"')


@dataclass
class Made:
    """The tables and figures that could be made of one folder's studies."""

    exhibits: list[Exhibit] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def gather(made: Mapping[Path, Made], store: Path) -> list[Page]:
    """A page for every folder of experiments/, by name; ``made`` is by folder, ``store`` knows the costs."""
    folders = {file.parent for file in folder("experiments").glob("*/*.toml")} | made.keys()
    tables, figures = _entries("tables"), _entries("figures")
    return [
        _page(
            place,
            made.get(place, Made()),
            store,
            [entry for entry in tables if entry.file.parent == place],
            [entry for entry in figures if entry.file.parent == place],
        )
        for place in sorted(folders)
    ]


def describe(figure: FigureSection, tables: Sequence[Table]) -> str:
    """A figure in words for whoever cannot see it; ``tables`` are those that it is made from."""
    match figure:
        case BarsSection():
            return " ".join(_panel(table) for table in tables)
        case AlphaSection():
            return "Scores of APFL, mean and interval, against the learning rate of alpha."
        case HeatmapSection():
            return "A heat map of methods by clients; its numbers stand in the table of the same methods."
        case ClientsSection():
            return "A bar for every method and client; its numbers stand in the table of the same methods."
        case CurvesSection():
            methods = ", ".join(row.method for row in figure.rows)
            return f"Learning curves over rounds, mean and spread over runs, of {methods}."
        case TrajectoriesSection():
            return f"How client {figure.client} weighs every client's model ({figure.trace}), round by round."
        case LayersSection():
            return f"{', '.join(figure.traces)} of every layer of the model."
        case PartitionSection():
            return "How many training samples of each class every client holds."
        case RanksSection():
            return "A critical-difference diagram: mean ranks on a line, methods that do not differ joined by a bar."


def costs(store: Path, runs: Collection[str]) -> tuple[TrainingTime, ...]:
    """What the run batches took that hold any of ``runs``, in the order they were trained."""
    wanted = {run.encode() for run in runs}
    return tuple(
        TrainingTime(line["machine"], line["runs"], line["seconds"])
        for line in Store(store).costs()
        if (records := store / "records" / f"{line['population']}.jsonl").exists()
        if wanted & set(RUN.findall(records.read_bytes()))
    )


def _entries(kind: Literal["tables", "figures"]) -> list[Published]:
    """Every table or figure of experiments/, in the order of its paper; those over several studies are among them."""
    several = [Published(name, getattr(joined, kind)[name].title, joined.file) for name, joined in joint(kind).items()]
    return sorted([*published(kind).values(), *several], key=_place)


def _page(place: Path, made: Made, store: Path, tables: Sequence[Published], figures: Sequence[Published]) -> Page:
    facts = parse(file) if (file := place / "paper.toml").exists() else {}
    specs = [exhibit.table.spec for exhibit in made.exhibits]
    shown = {spec.id.removesuffix(f"-{spec.profile}") for spec in specs}
    drawn = {picture.id for picture in made.pictures}
    absent = [entry.title for entry in tables if entry.id not in shown]
    absent += [entry.title for entry in figures if entry.id not in drawn]
    runs = {record["run"] for exhibit in made.exhibits for record in exhibit.records}
    return Page(
        paper=place.name,
        title=facts.get("title") or next((entry.title for entry in tables), place.name),
        exhibits=tuple(sorted(made.exhibits, key=lambda exhibit: _place(exhibit.table.spec))),
        pictures=tuple(sorted(made.pictures, key=_place)),
        absent=tuple(dict.fromkeys(absent)),
        notes=file.read_text(encoding="utf-8") if (file := place / "README.md").exists() else "",
        audit=findings.audit_folder(place) if (place / "audit.toml").exists() else None,
        costs=costs(store, runs),
    )


def _place(named: Published | Picture | TableSpec) -> list[str | int]:
    """Where something stands in the paper by the numbers in its id: Table 2 before Table 10, A.2 after both."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", named.id)]


def _panel(table: Table) -> str:
    silo = [cell.mean for cell in table.overall if cell.method == table.spec.silo and cell.mean is not None]
    bars = [
        (cell.mean, cell.method) for cell in table.overall if cell.method != table.spec.silo and cell.mean is not None
    ]
    if not bars:
        return f"Bar chart of {table.spec.metric} without a bar: no run is finished."
    (low, lowest), (high, highest) = min(bars), max(bars)
    digits = table.spec.digits
    text = f"Bar chart of {table.spec.metric}, {len(bars)} bars: highest {highest} with {high:.{digits}f}, "
    text += f"lowest {lowest} with {low:.{digits}f}"
    return f"{text}; dashed line {table.spec.silo} at {silo[-1]:.{digits}f}." if silo else f"{text}."
