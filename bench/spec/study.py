"""A study that has been read and checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.spec import printed
from bench.spec.files.profiles import PAPER
from bench.spec.files.rows import checkpoints
from bench.spec.method import Method
from bench.spec.sections.figures import FigureSection, PartitionSection
from bench.spec.sections.keys import Choice
from bench.spec.sections.study import Rule
from bench.spec.sections.tables import RowSection, TableSection


@dataclass(frozen=True)
class StudySpec:
    """A study: ``methods`` by key in the order of the file, ``tables`` and ``figures`` by id.

    ``paper`` is the folder of experiments/ whose printed numbers are shown, ``rule`` the selection rule, ``data`` the
    labels of the data sets. ``profile`` is "paper" for the file without a profile.
    """

    file: Path
    title: str
    paper: str | None
    seeds: tuple[int, ...]
    data: tuple[str, ...]
    rule: Rule
    methods: Mapping[str, Method]
    tables: Mapping[str, TableSection]
    figures: Mapping[str, FigureSection]
    profile: str = PAPER

    def runs(self, methods: Iterable[str]) -> int:
        """Return the number of runs of these methods (keys)."""
        return len(self.seeds) * sum(self.methods[method].tried for method in methods)

    def methods_behind(self, tables: Iterable[str], figures: Iterable[str]) -> set[str]:
        """Return the keys of the methods that these tables and figures (ids) are made from."""
        shown = [self.figures[figure] for figure in figures]
        behind = [self.tables[table] for table in (*tables, *(table for figure in shown for table in figure.drawn))]
        return set().union(*(section.methods for section in (*behind, *shown)))

    def stem(self, name: str) -> str:
        """Return the path of the files of a table or figure (id), below the folder of results and without a suffix."""
        return name if self.profile == PAPER else f"{name}-{self.profile}"

    def with_a_table(self) -> StudySpec:
        """Return the study; if it has no table, with one of all methods for each data set."""
        if self.tables:
            return self
        stem = re.sub(r"[^\w-]+", "-", self.file.stem)
        several = len(self.data) > 1
        tables = {}
        for data in self.data:
            keys = [key for key in self.methods if not several or key.endswith(f"@{data}")]
            rows = [self._row(key) for key in keys]
            table = TableSection(id=labelled(stem, data) if several else stem, title=self._title(data), rows=rows)
            tables[table.id] = table
        return replace(self, tables=tables)

    def _row(self, key: str) -> RowSection:
        method = self.methods[key]
        return RowSection(method=method.label, of=key, checkpoints=checkpoints(method.algorithm.name))

    def _title(self, data: str) -> str:
        return f"{self.title} ({data})" if len(self.data) > 1 else self.title

    def dataset(self, table: TableSection) -> Choice:
        """Return the data set of the first row of a table."""
        return self.methods[table.rows[0].of].data

    def shown_data(self, figure: PartitionSection) -> Choice:
        """Return the data set of a figure of a partition; if each seed has its own, that of the first seed."""
        methods = (method for name, method in self.methods.items() if figure.data in (None, name.rpartition("@")[2]))
        return next(methods).data_of(self.seeds[0])

    def printed(self, table: TableSection) -> list[printed.Number]:
        """Return the printed numbers of ``table`` in our unit; an empty list if there are none."""
        by_client = table.columns == "clients"
        if table.printed is not None:
            numbers = printed.at(self.paper, table.printed, by_client=by_client)
        else:
            numbers = [each for row in table.rows for each in printed.of_row(self.paper, row, by_client=by_client)]
        return [number.scaled(table.printed_unit) for number in numbers]


def labelled(name: str, label: str) -> str:
    """Return the id of a table or figure for the data set with this label; ids are names of files."""
    return f"{name}-{re.sub(r'[^A-Za-z0-9_-]+', '-', label)}"
