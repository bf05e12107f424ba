"""Content of the report site: exhibits, pictures and pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.report.audit.findings import Audit
from bench.report.environments import described
from bench.report.provenance import behind, versions
from bench.report.scores import Record
from bench.report.tables.compare import agreement
from bench.report.tables.joint import BLOCK
from bench.report.tables.table import Table
from bench.spec import PAPER
from bench.types import Chosen


@dataclass(frozen=True)
class Exhibit:
    """A table and the runs behind it: ``chosen`` settings by the key that the table's rows are ``of``.

    A joint table has none, because its numbers are those of other tables. ``printed`` names the printed numbers beside
    ours as table:dataset:metric; two exhibits with the same name repeat each other.
    """

    table: Table
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    printed: str | None = None

    @property
    def id(self) -> str:
        """The table's id without its profile."""
        return without_profile(self.table.spec.id, self.table.spec.profile)

    @property
    def joint(self) -> bool:
        """Whether the table only repeats the numbers of other tables."""
        return self.table.spec.block == BLOCK

    @property
    def compared(self) -> bool:
        """Whether any of its cells is compared with a printed number."""
        return agreement(self.table) is not None

    @property
    def records(self) -> list[Record]:
        """The existing records of all runs behind the table."""
        used = [self.chosen[of] for of in behind(self.table) if of in self.chosen]
        return [record for choice in used for record in choice.records if record is not None]

    @property
    def marks(self) -> list[str]:
        """Warnings that a reader must see before any number of the table."""
        spec, table = self.table.spec, self.table
        found = {
            "synthetic data": table.synthetic,
            f"{spec.profile} profile": spec.profile != PAPER,
            "partial": table.partial,
            "incomplete": bool(table.incomplete),
        }
        return [mark for mark, holds in found.items() if holds]


@dataclass(frozen=True)
class Picture:
    """A figure: a png or svg ``file``, and in ``alt`` a description for readers who cannot see it."""

    id: str
    title: str
    file: Path
    alt: str


@dataclass(frozen=True)
class TrainingTime:
    """``runs`` that were trained in ``seconds`` on ``machine``."""

    machine: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class Page:
    """Everything that the report shows of one paper, or of one study of your own.

    ``paper`` is the short name, ``absent`` holds the titles of tables and figures without records, ``notes`` the
    findings as markdown.
    """

    paper: str
    title: str
    exhibits: tuple[Exhibit, ...] = ()
    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()
    notes: str = ""
    audit: Audit | None = None
    costs: tuple[TrainingTime, ...] = ()

    @property
    def file(self) -> str:
        """The page's file name, made of letters, digits, points and hyphens."""
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', self.paper)}.html"

    @property
    def versions(self) -> list[str]:
        """The versions of libraries behind the page's tables."""
        return versions(record for exhibit in self.exhibits for record in exhibit.records)

    @property
    def environments(self) -> list[str]:
        """The environments of training behind the page's tables."""
        return sorted(described(each for exhibit in self.exhibits for each in exhibit.table.environments).values())

    @property
    def machines(self) -> list[TrainingTime]:
        """The training times added up for each machine."""
        names = dict.fromkeys(cost.machine for cost in self.costs)
        own = [[cost for cost in self.costs if cost.machine == name] for name in names]
        return [
            TrainingTime(costs[0].machine, sum(cost.runs for cost in costs), sum(cost.seconds for cost in costs))
            for costs in own
        ]


def without_profile(name: str, profile: str) -> str:
    """Return an id of a table or figure without the profile that its file name ends with."""
    return name if profile == PAPER else name.removesuffix(f"-{profile}")
