"""A method of a study: an algorithm, a model, a budget and the settings that are searched."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench import settings
from bench.spec.sections.keys import Choice
from bench.spec.sections.study import RangeSection, SearchSection
from bench.types import Budget

# An option of a data set with this value is the run's seed: every run has a split of its own.
BY_SEED = {"from": "seed"}
PARTS = ("algorithm", "model", "data", "budget")  # what a searched name may begin with, before its dot
Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """One method of a study.

    ``axes`` holds, by hyper-parameter or by part and option ("model.hidden"), the values to combine or a range to draw
    from; ``fixed`` holds the values that all settings share. ``label`` is the name in tables and figures.
    """

    name: str
    algorithm: Choice
    model: Choice
    data: Choice
    budget: Budget
    fixed: Setting = field(default_factory=dict)
    axes: Mapping[str, tuple[Any, ...] | RangeSection] = field(default_factory=dict)
    search: SearchSection = field(default_factory=SearchSection)
    label: str = ""

    @property
    def grid(self) -> tuple[Setting, ...]:
        """All combinations of the values; the first name changes slowest."""
        values = [axis for axis in self.axes.values() if isinstance(axis, tuple)]
        return tuple({**self.fixed, **dict(zip(self.axes, each, strict=True))} for each in itertools.product(*values))

    @property
    def tried(self) -> int:
        """Number of settings that the search tries."""
        if self.search.trials is not None and self.axes:
            return self.search.trials
        return math.prod(len(axis) for axis in self.axes.values() if isinstance(axis, tuple))

    def at(self, setting: Setting) -> Method:
        """Return the method with one setting: its options in their parts, its numbers in ``fixed``, and no axes."""
        changed: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        numbers: dict[str, Any] = {}
        for name, value in setting.items():
            part, point, option = name.partition(".")
            if point:
                changed[part][option] = value
            else:
                numbers[name] = value
        return replace(
            self,
            algorithm=replace(self.algorithm, options={**self.algorithm.options, **changed["algorithm"]}),
            model=replace(self.model, options={**self.model.options, **changed["model"]}),
            data=replace(self.data, options={**self.data.options, **changed["data"]}),
            budget=with_lengths(self.budget, changed["budget"]),
            fixed=numbers,
            axes={},
        )

    @property
    def numbers(self) -> dict[str, float]:
        """The hyper-parameters of a method with one setting, including defaults."""
        return settings.resolve(self.algorithm.name, self.budget.optimizer, self.fixed, self.budget.schedule)

    def data_of(self, seed: int) -> Choice:
        """Return the data set of the run with this seed."""
        options = {name: seed if value == BY_SEED else value for name, value in self.data.options.items()}
        return replace(self.data, options=options)

    @property
    def by_seed(self) -> list[str]:
        """Options of the data set whose value is the run's seed."""
        return sorted(name for name, value in self.data.options.items() if value == BY_SEED)


def with_lengths(budget: Budget, changed: Mapping[str, Any]) -> Budget:
    """Return the budget with some fields changed; local epochs and local steps replace each other."""
    cleared = {"local_steps": None, "local_epochs": None} if {"local_steps", "local_epochs"} & set(changed) else {}
    return replace(budget, **{**cleared, **changed}) if changed else budget
