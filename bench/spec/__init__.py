"""Studies as TOML files, checked to the last key before anything is downloaded or trained.

``docs/study-file.md`` describes every key. A file becomes a study in three steps: bench.spec.files merges it with its
base file, a profile and its defaults; bench.spec.sections checks keys and types; bench.spec.build looks names up. Names
are looked up in source files, so that checking needs neither torch nor the data.
"""

from __future__ import annotations

from bench.spec.experiments import Published, claimed, joint, published, studies, tables_named
from bench.spec.files.profiles import PAPER
from bench.spec.joined import Joined
from bench.spec.method import Method, Setting
from bench.spec.printed import Number, fact
from bench.spec.reading import profile_names, read, source
from bench.spec.sections.figures import (
    AlphaSection,
    BarsSection,
    ClientsSection,
    CurvesSection,
    FigureSection,
    HeatmapSection,
    LayersSection,
    PartitionSection,
    RanksSection,
    TrajectoriesSection,
)
from bench.spec.sections.joint import JointSection
from bench.spec.sections.keys import Choice, options_by_name
from bench.spec.sections.study import RangeSection, Rule, SearchSection
from bench.spec.sections.tables import RowSection, TableSection
from bench.spec.study import StudySpec

__all__ = [
    "PAPER",
    "AlphaSection",
    "BarsSection",
    "Choice",
    "ClientsSection",
    "CurvesSection",
    "FigureSection",
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
    "RowSection",
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
    "source",
    "studies",
    "tables_named",
]
