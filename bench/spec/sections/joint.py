"""The keys of a file of joint tables, whose columns are tables of several studies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from bench.spec.sections.figures import RanksSection
from bench.spec.sections.keys import Id, Key, Section, Text
from bench.spec.sections.tables import Checkpoint, Names


class ColumnSection(Section):
    """A column of a joint table."""

    table: str = Field(description="Id of the table of a study.")
    label: str = Field(description="Name of the column.")


class JointSection(Section):
    """A joint table: cells of other tables side by side, with mean ranks and rank tests over the columns."""

    id: Id = Field(description="Name of the table and of its files.")
    title: str = Field(description="Title.")
    columns: Annotated[list[ColumnSection], Field(min_length=1)] = Field(description="Columns.")
    rows: Names = Field(description="Rows, as the tables of the columns name them; or the name of one of `[rows]`.")
    checkpoint: Checkpoint | None = Field(
        default=None, description="Checkpoint shown; by default the last of each row."
    )
    printed_ranks: str | None = Field(
        default=None, description="The paper's mean ranks: table:dataset:metric of `printed.csv`."
    )
    as_published: bool = Field(
        default=False,
        description="Add Friedman's test with methods and data sets exchanged, as PLayer-FL's code computes it.",
    )
    digits: int = Field(default=3, ge=0, le=10, description="Decimals shown; the csv file has all.")
    notes: list[str] = Field(default=[], description="Footnotes.")
    placeholders: dict[Key, Text] = Field(default={}, description="Texts for placeholders in the other keys.")


class JoinedSection(Section):
    """A file of joint tables, and of figures made from them."""

    joint: Annotated[list[JointSection], Field(min_length=1)] = Field(description="Joint tables.")
    paper: str | None = Field(default=None, description="Folder of `experiments/` whose printed mean ranks are shown.")
    defaults: dict[Key, Any] = Field(default={}, description="Keys that all joint tables share.")
    rows: dict[Key, Names] = Field(default={}, description="Lists of rows by name, for several joint tables.")
    figures: list[RanksSection] = Field(default=[], description="Critical-difference diagrams of the joint tables.")
