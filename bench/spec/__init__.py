"""A study as a TOML file: checked to the last key before anything is downloaded or trained.

A study names data, budget, seeds, methods with what they search, and the tables and figures made from them::

    title = "FedAvg and FedProx on the digits"
    seeds = [1, 2, 3]
    [data]                                # or several, [[data]]
    name = "digits"                       # further keys are options of the data set
    [budget]                              # the fields of bench.types.Budget
    rounds = 20
    local_epochs = 1
    [methods.fedavg]
    model = "logistic"                    # or { name = "mlp", hidden = 10 }
    grid.lr = [0.1, 0.01]                 # every combination is tried
    [methods.fedprox_strong]
    algorithm = "fedprox"                 # where it is not the key
    model = "logistic"
    grid.lr = [0.1, 0.01]
    grid."budget.local_epochs" = [1, 5]   # of algorithm, model, data and budget any option
    fixed.mu = 1.0
    budget.rounds = 40                    # over the study's; `data` and `search` likewise
    [methods.ditto]
    model = "logistic"
    range.lr = { low = 1e-4, high = 1.0, log = true }
    search = { kind = "random", trials = 20 }

An option of a data set may be ``{ from = "seed" }``: then each seed has a split of its own.
Names are looked up in the source files of what they name, so that checking needs neither torch nor the data.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from bench.registry import folder
from bench.spec.sections import (
    AlphaSection,
    BarsSection,
    Choice,
    RangeSection,
    Rule,
    SearchSection,
    StudySection,
    TableSection,
    first_fault,
)
from bench.spec.study import MAXIMAL_RUNS, Method, Setting, StudySpec, build
from bench.types import SpecError

__all__ = [
    "MAXIMAL_RUNS",
    "AlphaSection",
    "BarsSection",
    "Choice",
    "Method",
    "Published",
    "RangeSection",
    "Rule",
    "SearchSection",
    "Setting",
    "StudySpec",
    "TableSection",
    "published",
    "read",
]


def read(file: Path) -> StudySpec:
    """The study in ``file``; raises :class:`SpecError` naming the file, the key and what was expected."""
    try:
        section = StudySection.model_validate(_parse(file))
    except ValidationError as error:
        raise SpecError(f"{file}: {first_fault(error)}") from None
    try:
        return build(file, section)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None


@dataclass(frozen=True)
class Published:
    """A table or figure of a study in experiments/: its id, title, and the study's file."""

    id: str
    title: str
    file: Path


def published(kind: Literal["tables", "figures"]) -> dict[str, Published]:
    """Every table or figure of the studies in experiments/, by id."""
    found: dict[str, Published] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        content = _parse(file)
        if "methods" not in content:
            continue  # a paper's printed numbers
        study = read(file)
        for section in (study.tables if kind == "tables" else study.figures).values():
            entry = Published(section.id, section.title or study.title, file)
            if entry.id in found:
                raise SpecError(f"{file}: {kind}: {entry.id!r} stands in {found[entry.id].file} already")
            found[entry.id] = entry
    return found


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}; give the path of a study file") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SpecError(f"{file}: {error}") from None
