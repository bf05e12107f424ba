"""The sections of a study's TOML file: their keys, the types of their values, nothing looked up yet."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bench.spec.exhibits import FigureSection, RowSection, TableSection
from bench.spec.keys import Key, Named, Options, Section, Value, Whole
from bench.types import nearest

Rule = Literal["best-val"]  # see bench.sweep.selection
MAX_SEEDS = 10_000


class BudgetSection(Section):
    rounds: int | None = None
    local_steps: int | None = None
    local_epochs: int | None = None
    batch_size: Any = None  # a number or "full"; Budget has one message for both
    optimizer: str | None = None
    validation: float | None = None
    batches: int | None = None
    optimizer_state: str | None = None
    evaluate: str | None = None
    test_every: int | None = None
    draws: str | None = None


class RangeSection(Section):
    """Where a search draws a number from: uniformly, of its logarithm with ``log``, whole numbers with ``whole``."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> RangeSection:
        if not self.low < self.high or (self.log and self.low <= 0):
            positive = " and low above 0" if self.log else ""
            raise ValueError(f"low = {self.low}, high = {self.high}: expected low below high{positive}")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"low = {self.low}, high = {self.high}: expected whole numbers")
        return self


class SearchSection(Section):
    """How settings are found: every one of the ``grid``, or ``trials`` that are drawn (see bench.sweep.search)."""

    kind: Literal["grid", "random", "tpe", "halving"] = "grid"
    trials: Whole | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    batch: Whole = 10
    first: Whole | None = None
    reduction: Annotated[int, Field(ge=2)] = 3

    @model_validator(mode="after")
    def _fits_its_kind(self) -> SearchSection:
        takes = {"grid": set(), "random": {"trials", "seed"}, "tpe": {"trials", "seed", "batch"}}
        takes["halving"] = {"trials", "seed", "first", "reduction"}
        for key in ("trials", "seed", "batch", "first", "reduction"):
            if key in self.model_fields_set and key not in takes[self.kind]:
                raise ValueError(f"{key} has no meaning for a search of kind {self.kind!r}; leave it out")
        for key in ("trials", "first"):
            if key in takes[self.kind] and getattr(self, key) is None:
                raise ValueError(f"{key} is missing; a search of kind {self.kind!r} needs it")
        return self


class MethodSection(Section):
    model: Named
    algorithm: Named | None = None
    grid: dict[str, Annotated[list[Value], Field(min_length=1)]] = {}
    range: dict[str, RangeSection] = {}
    fixed: dict[str, Value] = {}
    budget: BudgetSection = BudgetSection()
    data: Options = {}
    search: SearchSection | None = None


class SelectSection(Section):
    rule: Rule = "best-val"


def _one_after_another(seeds: Any) -> Any:
    """``{ from = 0, to = 100 }`` as the 101 seeds that it means."""
    if not isinstance(seeds, dict):
        return seeds
    first, last = seeds.get("from"), seeds.get("to")
    if set(seeds) != {"from", "to"} or type(first) is not int or type(last) is not int or first > last:
        raise ValueError("expected a list of whole numbers, or the first and the last: { from = 0, to = 100 }")
    if last - first >= MAX_SEEDS:
        raise ValueError(f"{last - first + 1:,} seeds are more than {MAX_SEEDS:,}")
    return list(range(first, last + 1))


class StudySection(Section):
    """A study's file. ``rows`` are lines that several tables have in common: a table names them, ``rows = "all"``."""

    title: str
    seeds: Annotated[list[int], Field(min_length=1), BeforeValidator(_one_after_another)]
    data: Named | Annotated[list[Named], Field(min_length=1)]
    methods: Annotated[dict[Key, MethodSection], Field(min_length=1)]
    paper: str | None = None
    budget: BudgetSection = BudgetSection()
    search: SearchSection = SearchSection()
    select: SelectSection = SelectSection()
    rows: dict[Key, list[RowSection]] = {}
    tables: list[TableSection] = []
    figures: list[FigureSection] = []

    @model_validator(mode="before")
    @classmethod
    def _rows_in_common(cls, section: Any) -> Any:
        common, tables = section.get("rows", {}), section.get("tables", [])
        if not (isinstance(common, dict) and isinstance(tables, list)):
            return section

        def lined(table: Any) -> Any:
            if not (isinstance(table, dict) and isinstance(name := table.get("rows"), str)):
                return table
            if name not in common:
                raise ValueError(
                    f"tables: rows = {name!r}: {nearest(name, common) if common else 'there are no [rows]'}"
                )
            return table | {"rows": common[name]}

        return section | {"tables": [lined(table) for table in tables]}
