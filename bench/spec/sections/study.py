"""The keys of a study file, except those of tables and figures."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from bench.limits import MAX_SEEDS, MAX_TRIALS
from bench.spec.sections.figures import FigureSection
from bench.spec.sections.keys import Choice, Key, Label, Named, Options, Section, Text, Value, Whole, choices
from bench.spec.sections.tables import TableSection
from bench.types import Budget, nearest

Rule = Literal["best-val"]  # see bench.sweep.search.selection
MAX_ENDS = 1e30  # of a range, on both sides of zero; the square is a finite float32
BUDGET_KEYS = tuple(field.name for field in fields(Budget))


def _budget(value: Any) -> dict[str, Any]:
    """Return the keys of a budget; :class:`Budget` checks their values."""
    if not isinstance(value, dict):
        raise ValueError("expected a table")
    for key in value:
        if key not in BUDGET_KEYS:
            raise PydanticCustomError("unknown_key", "unknown key", {"key": key, "hint": nearest(key, BUDGET_KEYS)})
    return value


BudgetKeys = Annotated[dict[str, Any], PlainValidator(_budget)]


class RangeSection(Section):
    """Range of numbers from which a search draws."""

    low: float = Field(description="Smallest value.")
    high: float = Field(description="Largest value.")
    log: bool = Field(default=False, description="Draw the logarithm uniformly.")
    whole: bool = Field(default=False, description="Draw whole numbers.")

    @model_validator(mode="after")
    def _in_order(self) -> RangeSection:
        if not self.low < self.high or (self.log and self.low <= 0):
            positive = " and low above 0" if self.log else ""
            raise ValueError(f"low = {self.low}, high = {self.high}: expected low below high{positive}")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"low = {self.low}, high = {self.high}: expected whole numbers")
        if self.low < -MAX_ENDS or self.high > MAX_ENDS:
            raise ValueError(f"low = {self.low}, high = {self.high}: expected -{MAX_ENDS:g} to {MAX_ENDS:g}")
        return self


class SearchSection(Section):
    """Search for hyper-parameters."""

    kind: Literal["grid", "random", "tpe", "halving"] = Field(
        default="grid",
        description='Try every setting of the "grid"; draw settings at "random" or by "tpe"; or draw them at random '
        'and drop the worse ones during training ("halving").',
    )
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = Field(
        default=None, description='Settings drawn; needed unless the kind is "grid".'
    )
    seed: int = Field(default=0, ge=0, description="Seed of the draws.")
    batch: Whole = Field(default=10, description="Settings drawn and trained at a time (tpe).")
    first: Whole | None = Field(default=None, description="Rounds before settings are first dropped (halving).")
    reduction: int = Field(
        default=3, ge=2, le=MAX_TRIALS, description="Keep one in this many settings each time (halving)."
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> SearchSection:
        takes = {"grid": set(), "random": {"trials", "seed"}, "tpe": {"trials", "seed", "batch"}}
        takes["halving"] = {"trials", "seed", "first", "reduction"}
        for key in ("trials", "seed", "batch", "first", "reduction"):
            if key in self.model_fields_set and key not in takes[self.kind]:
                raise ValueError(f'{key} has no meaning for kind = "{self.kind}"; remove it')
        for key in ("trials", "first"):
            if key in takes[self.kind] and getattr(self, key) is None:
                raise ValueError(f'{key} is missing; kind = "{self.kind}" needs it')
        return self


class DefaultsSection(Section):
    """Keys that methods inherit. A method's own keys are laid over them, key by key."""

    algorithm: Named | None = Field(
        default=None,
        description="Registered name, or a table of `name` and options; by default the algorithm that the method's key "
        "names.",
    )
    model: Named | None = Field(default=None, description="Registered name, or a table of `name` and options.")
    grid: dict[str, Annotated[list[Value], Field(min_length=1)]] = Field(
        default={},
        description="Lists of values by hyper-parameter; every combination is tried. Options of the algorithm, model, "
        'data or budget are searched as `"model.hidden"` or `"budget.local_epochs"`.',
    )
    range: dict[str, RangeSection] = Field(default={}, description="Ranges by hyper-parameter, for searches that draw.")
    fixed: dict[str, Value] = Field(default={}, description="Values by hyper-parameter that are not searched.")


class MethodSection(DefaultsSection):
    """A method: an algorithm, a model and hyper-parameters. Its key names it in tables and on the command line."""

    model: Named = Field(description="Registered name, or a table of `name` and options.")
    label: Label | None = Field(default=None, description="Name in tables and figures; by default the key.")
    drop: list[str] = Field(default=[], description="Hyper-parameters of `[defaults]` not to inherit.")
    budget: BudgetKeys = Field(default={}, description="Keys over those of the study's `[budget]`.")
    data: Options = Field(default={}, description="Options over those of the study's data sets.")
    search: SearchSection | None = Field(default=None, description="Search in place of the study's.")


class SelectSection(Section):
    """Selection of one setting from those that were tried."""

    rule: Rule = Field(default="best-val", description="Rule; there is one: lowest validation loss.")


def _one_after_another(seeds: Any) -> Any:
    """Return the seeds of a range: 101 of them for ``{ from = 0, to = 100 }``."""
    if not isinstance(seeds, dict):
        return seeds
    first, last = seeds.get("from"), seeds.get("to")
    if set(seeds) != {"from", "to"} or type(first) is not int or type(last) is not int or first > last:
        raise ValueError("expected a list of whole numbers, or the first and the last: { from = 0, to = 100 }")
    if last - first >= MAX_SEEDS:
        raise ValueError(f"{last - first + 1:,} seeds are more than {MAX_SEEDS:,}")
    return list(range(first, last + 1))


class StudySection(Section):
    """A study."""

    title: str = Field(description="Title.")
    seeds: Annotated[list[int], Field(min_length=1, max_length=MAX_SEEDS), BeforeValidator(_one_after_another)] = Field(
        description="Seeds: a list, or `{ from = 0, to = 100 }`. Every setting is trained once with each."
    )
    data: Annotated[list[Choice], PlainValidator(choices)] = Field(
        description="Registered name, or a table of `name` and options; `[[data]]` for several. An option with "
        'the value `{ from = "seed" }` is the run\'s seed. All data sets take `label` (the name in titles) and '
        "`subsample` (the share of samples to keep).",
    )
    methods: Annotated[dict[Key, MethodSection], Field(min_length=1)] = Field(description="Methods by key.")
    extends: str | None = Field(default=None, description="File in the same folder that this one is laid over.")
    paper: str | None = Field(
        default=None, description="Folder of `experiments/` whose printed numbers are shown next to ours."
    )
    budget: BudgetKeys = Field(default={}, description="Length and kind of training.")
    defaults: DefaultsSection = Field(default=DefaultsSection(), description="Keys that all methods inherit.")
    search: SearchSection = Field(default=SearchSection(), description="Search for hyper-parameters.")
    select: SelectSection = Field(default=SelectSection(), description="Selection of a setting.")
    placeholders: dict[Key, Text] = Field(
        default={}, description="Texts by name, for `{name}` in titles, ids and other texts of tables and figures."
    )
    rows: dict[Key, Any] = Field(default={}, description="Lists of rows by name, for several tables.")
    tables: list[TableSection] = Field(default=[], description="Tables; by default one of all methods.")
    figures: list[FigureSection] = Field(default=[], description="Figures.")
    profiles: dict[Key, Any] = Field(default={}, description="Shorter forms of the study by name.")


class ProfileSection(Section):
    """Keys that are laid over the study's.

    A pattern such as `methods."fedfomo_*"` applies to all methods that it matches; keys of a named method win.
    """

    seeds: Any = Field(default=None, description="Seeds in place of the study's.")
    budget: Any = Field(default=None, description="Keys over those of `[budget]`.")
    search: Any = Field(default=None, description="Search in place of the study's.")
    data: Any = Field(default=None, description="Options over those of all data sets.")
    defaults: Any = Field(default=None, description="Keys over those of `[defaults]`.")
    methods: Any = Field(default=None, description="Keys over those of the methods, by key or pattern.")
