"""A file of tables over several data sets, made from the tables of studies::

paper = "player"                        # whose printed mean ranks stand beside ours
[[joint]]
id = "player/1"
title = "PLayer-FL, Table 1"
columns = [{ table = "player/1-emnist", label = "EMNIST" }, { table = "player/1-hearts", label = "Hearts" }]
rows = ["Local", "FedAvg"]              # as those tables call them
[[figures]]                             # a critical-difference diagram of a joint table
id = "player/1-ranks"
kind = "cd"
title = "..."
table = "player/1"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.spec import printed
from bench.spec.exhibits import JoinedSection, JointSection, RanksSection
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Joined:
    """Joint tables and the diagrams made from them, by id."""

    file: Path
    paper: str | None
    tables: Mapping[str, JointSection]
    figures: Mapping[str, RanksSection]

    def printed_ranks(self, table: JointSection) -> dict[str, float]:
        """The printed mean ranks by method; none is empty."""
        if table.printed_ranks is None:
            return {}
        return {number.method: number.value for number in printed.at(self.paper, table.printed_ranks)}


def build(file: Path, section: JoinedSection, known: Collection[str]) -> Joined:
    """What ``section`` describes, of the ``known`` tables (ids); raises :class:`SpecError` naming the key."""
    for key in ("joint", "figures"):
        ids = [each.id for each in getattr(section, key)]
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise SpecError(f"{key}: {twice[0]!r} stands more than once")
    joined = Joined(
        file, section.paper, {each.id: each for each in section.joint}, {each.id: each for each in section.figures}
    )
    for number, table in enumerate(section.joint):
        where = f"joint[{number}]"
        for key, values in (("rows", table.rows), ("columns", [column.label for column in table.columns])):
            if twice := sorted({value for value in values if values.count(value) > 1}):
                raise SpecError(f"{where}.{key}: {twice[0]!r} stands more than once")
        for column in table.columns:
            if column.table not in known:
                raise SpecError(f"{where}.columns: table {column.table!r}: {nearest(column.table, known)}")
        joined.printed_ranks(table)
    for number, figure in enumerate(section.figures):
        if figure.table not in joined.tables:
            raise SpecError(f"figures[{number}].table = {figure.table!r}: {nearest(figure.table, joined.tables)}")
    return joined
