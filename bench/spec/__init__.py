"""A study as a TOML file: checked to the last key before anything is downloaded or trained.

A study names data, budget, seeds, methods with what they search, and the tables and figures made from them::

    title = "FedAvg and FedProx on the digits"
    seeds = [1, 2, 3]                     # or { from = 1, to = 3 }
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

from bench.spec.exhibits import (
    AlphaSection,
    BarsSection,
    ClientsSection,
    CurvesSection,
    HeatmapSection,
    JointSection,
    LayersSection,
    PartitionSection,
    RanksSection,
    TableSection,
    TrajectoriesSection,
)
from bench.spec.experiments import Published, claimed, joint, published, tables_named
from bench.spec.joined import Joined
from bench.spec.keys import Choice, options_by_name
from bench.spec.printed import Number, fact
from bench.spec.profiles import PAPER
from bench.spec.reading import profile_names, read
from bench.spec.sections import RangeSection, Rule, SearchSection
from bench.spec.study import MAX_STUDY_RUNS, Method, Setting, StudySpec

__all__ = [
    "MAX_STUDY_RUNS",
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
    "claimed",
    "fact",
    "joint",
    "options_by_name",
    "profile_names",
    "published",
    "read",
    "tables_named",
]
