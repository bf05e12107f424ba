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

Tables and figures are described in bench.spec.exhibits, profiles in bench.spec.profiles, tables over several studies in
bench.spec.joined. An option of a data set may be ``{ from = "seed" }``: then each seed has a split of its own.
Names are looked up in the source files of what they name, so that checking needs neither torch nor the data.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from bench.registry import folder
from bench.spec import joined, profiles
from bench.spec.exhibits import (
    AlphaSection,
    BarsSection,
    ClientsSection,
    CurvesSection,
    HeatmapSection,
    JoinedSection,
    JointSection,
    LayersSection,
    PartitionSection,
    RanksSection,
    TableSection,
    TrajectoriesSection,
)
from bench.spec.joined import Joined
from bench.spec.keys import Choice, first_fault
from bench.spec.printed import Number
from bench.spec.profiles import PAPER
from bench.spec.sections import RangeSection, Rule, SearchSection, StudySection
from bench.spec.study import MAXIMAL_RUNS, Method, Setting, StudySpec, build
from bench.types import SpecError

__all__ = [
    "MAXIMAL_RUNS",
    "PAPER",
    "AlphaSection",
    "BarsSection",
    "Choice",
    "ClientsSection",
    "CurvesSection",
    "HeatmapSection",
    "Joined",
    "JointSection",
    "LayersSection",
    "Method",
    "Number",
    "PartitionSection",
    "Published",
    "RangeSection",
    "RanksSection",
    "Rule",
    "SearchSection",
    "Setting",
    "StudySpec",
    "TableSection",
    "TrajectoriesSection",
    "joint",
    "profile_names",
    "published",
    "read",
]
LARGEST = 1_000_000  # bytes of a study file


def read(file: Path, profile: str = PAPER) -> StudySpec:
    """The study in ``file``, as it stands or with a ``profile`` over it.

    Raises :class:`SpecError` naming the file, the key and what was expected.
    """
    where = str(file) if profile == PAPER else f"{file}, profile {profile}"
    parsed = _parse(file)
    try:
        content = profiles.laid_over(parsed, profile)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None
    try:
        return build(file, StudySection.model_validate(content), profile)
    except ValidationError as error:
        raise SpecError(f"{where}: {first_fault(error)}") from None
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def profile_names(file: Path) -> list[str]:
    """The profiles that the study in ``file`` can be read with, that of the paper first."""
    return profiles.names(_parse(file))


@dataclass(frozen=True)
class Published:
    """A table or figure of a study in experiments/: its id, title, and the study's file."""

    id: str
    title: str
    file: Path


def published(kind: Literal["tables", "figures"]) -> dict[str, Published]:
    """Every table or figure of the studies in experiments/, by id; those of several studies are :func:`joint`."""
    found: dict[str, Published] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        if "methods" not in _parse(file):
            continue  # a paper's printed numbers, or joint tables
        study = read(file)
        for section in (study.tables if kind == "tables" else study.figures).values():
            entry = Published(section.id, section.title or study.title, file)
            _refuse_another(kind, file, entry.id, {name: known.file for name, known in found.items()})
            found[entry.id] = entry
    return found


def joint(kind: Literal["tables", "figures"]) -> dict[str, Joined]:
    """By the id of every table over several studies of experiments/, or figure of one: the file's content."""
    known = {name: entry.file for name, entry in published(kind).items()}
    tables = published("tables")
    found: dict[str, Joined] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        if "joint" not in (content := _parse(file)):
            continue
        try:
            content_of = joined.build(file, JoinedSection.model_validate(content), tables)
        except ValidationError as error:
            raise SpecError(f"{file}: {first_fault(error)}") from None
        except SpecError as error:
            raise SpecError(f"{file}: {error}") from None
        for name in content_of.tables if kind == "tables" else content_of.figures:
            _refuse_another(kind, file, name, known)
            known[name], found[name] = file, content_of
    return found


def _refuse_another(kind: str, file: Path, name: str, known: dict[str, Path]) -> None:
    if name in known:
        raise SpecError(f"{file}: {kind}: {name!r} stands in {known[name]} already")


def _parse(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            raise SpecError(f"{file}: larger than {LARGEST:,} bytes; a study file names settings, it holds no data")
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}; give the path of a study file") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SpecError(f"{file}: {error}") from None
