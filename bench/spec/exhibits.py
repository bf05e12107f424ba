"""The sections of tables and figures: what a study file, or one that joins several, says it wants to see."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bench.spec.keys import Id, Section

# The last two are rounds of the learning curve (bench.report.learning_curves); the first of them uses test samples.
Checkpoint = Literal["latest", "global", "local", "best-test (oracle)", "best-val"]
Weights = Literal["equal", "test_size"]
Names = Annotated[list[str], Field(min_length=1)]
ALONG = ("best-test (oracle)", "best-val")
VALIDATION = "validation"  # among the scores of a figure of curves: the aggregated validation loss


class RowSection(Section):
    """One line of a table: ``method`` as the table calls it, ``of`` the study's method it is made from.

    ``metric`` is the row's own where it is not the table's. ``printed`` is where the paper's number stands in its
    paper.toml (keys, and numbers of list entries from 0, with dots between) where printed.csv has none for the table.
    Without ``compared`` the printed numbers are of something else than ours, and there is no verdict.
    """

    method: str
    of: str
    score: Annotated[str, Field(pattern=r"^(own|model \d+)$")] = "own"
    checkpoints: Annotated[list[Checkpoint], Field(min_length=1)] = ["global", "local"]
    metric: str | None = None
    printed: str | None = None
    compared: bool = True

    @model_validator(mode="after")
    def _is_printed_once(self) -> RowSection:
        if self.printed is not None and len(self.checkpoints) > 1:
            raise ValueError("printed is the number of one cell; name one of the checkpoints")
        return self


class TableSection(Section):
    """A table to make; without ``metric`` the data set's own. ``printed`` is table:dataset:metric of the paper.

    What the other keys mean is said by :class:`bench.report.tables.table.TableSpec`.
    """

    id: Id
    rows: Annotated[list[RowSection], Field(min_length=1)]
    title: str | None = None
    metric: str | None = None
    printed: str | None = None
    printed_unit: Annotated[float, Field(gt=0)] = 1.0
    silo: str = "Silo"
    baselines: list[str] = []
    notes: list[str] = []
    ranks: bool = False
    digits: Annotated[int, Field(ge=0, le=10)] = 3
    one_run: bool = False
    columns: Literal["checkpoints", "clients"] = "checkpoints"
    value: Literal["mean", "fairness", "participation", "parameters", "floats_up", "floats_down"] = "mean"
    against: list[str] = []
    center: Literal["mean", "median"] = "mean"
    interval: Literal["t", "normal", "bootstrap"] = "t"
    weights: Weights = "equal"

    @model_validator(mode="after")
    def _is_printed_in_one_place(self) -> TableSection:
        if self.printed is not None and any(row.printed is not None for row in self.rows):
            raise ValueError("printed stands in the table and in a row of it; leave one out")
        return self

    @model_validator(mode="after")
    def _fits_its_value(self) -> TableSection:
        if self.value == "participation" and len(self.against) != 2:
            raise ValueError('value = "participation" needs against = [local training, FedAvg], two of the methods')
        if self.against and self.value != "participation":
            raise ValueError(f'against has no meaning for value = "{self.value}"; leave it out')
        if self.columns == "clients" and self.value not in ("mean", "parameters"):
            raise ValueError(f'columns = "clients" has no meaning for value = "{self.value}"; leave it out')
        if self.center == "median" and self.interval != "bootstrap":
            raise ValueError('center = "median" has an interval = "bootstrap" only')
        return self

    @property
    def methods(self) -> set[str]:
        """The study's methods that it is made from."""
        return {row.of for row in self.rows} | set(self.against)

    @property
    def metrics(self) -> set[str]:
        """The metrics it names."""
        return {metric for metric in (self.metric, *(row.metric for row in self.rows)) if metric is not None}


# Figures of a study -----------------------------------------------------------------------------------------------


class Figure(Section):
    """``methods`` are those of the study that a figure is made from besides its tables, ``metrics`` those it names."""

    id: Id
    title: str

    @property
    def drawn(self) -> list[str]:
        """The ids of the tables it is made from."""
        return []

    @property
    def methods(self) -> set[str]:
        return set()

    @property
    def metrics(self) -> set[str]:
        return set()


class BarsSection(Figure):
    """A bar chart with a panel for each of the study's ``tables`` (ids)."""

    kind: Literal["bars"]
    tables: Names

    @property
    def drawn(self) -> list[str]:
        return self.tables


class OfTable(Figure):
    """A figure of one of the study's tables, by its id."""

    table: str

    @property
    def drawn(self) -> list[str]:
        return [self.table]


class ClientsSection(OfTable):
    """A bar for each client and row of a table."""

    kind: Literal["clients"]


class HeatmapSection(OfTable):
    """The rows of a table by the clients they are tested on."""

    kind: Literal["heatmap"]


class RanksSection(OfTable):
    """The critical-difference diagram of a table, over its clients, or of a joint table, over its columns."""

    kind: Literal["cd"]


class OfMethod(Figure):
    """A figure of one of the study's methods, by its key."""

    of: str

    @property
    def methods(self) -> set[str]:
        return {self.of}


class AlphaSection(OfMethod):
    """Scores of APFL, the method ``of`` the study, against its learning rate for alpha, the rest as chosen."""

    kind: Literal["alpha"]
    metric: str | None = None
    checkpoint: Literal["latest", "global", "local"] = "local"

    @property
    def metrics(self) -> set[str]:
        return {self.metric} if self.metric else set()


class TrajectoriesSection(OfMethod):
    """What a method watches at its clients, ``trace``, round by round, in the run of the first seed.

    Of vectors with an entry for each client the left panel has those of ``client``, the right one every client's own.
    """

    kind: Literal["trajectories"]
    trace: str = "p"
    client: Annotated[int, Field(ge=0)] = 0
    absolute: bool = False


class CurveRow(Section):
    """One line of a figure of curves."""

    method: str
    of: str


class CurvesSection(Figure):
    """Learning curves of some methods, a panel for each of ``scores``: metrics tested on the way, or "validation"."""

    kind: Literal["curves"]
    rows: Annotated[list[CurveRow], Field(min_length=1)]
    scores: Names
    weights: Weights = "equal"

    @property
    def methods(self) -> set[str]:
        return {row.of for row in self.rows}

    @property
    def metrics(self) -> set[str]:
        return set(self.scores) - {VALIDATION}


class LayersSection(OfMethod):
    """What the method ``of`` the study watches layer by layer, ``traces``, a line for each client.

    Values are divided by the ``first`` layer's or the least (``min``) of each client; ``names`` are the layers'.
    """

    kind: Literal["layers"]
    traces: Names
    round: Literal["first", "last"] = "first"
    normalise: Literal["none", "first", "min"] = "none"
    log: bool = False
    names: list[str] = []


class PartitionSection(Figure):
    """Which client holds how many training samples of which class, of the study's ``data`` set with this label."""

    kind: Literal["partition"]
    data: str | None = None


FigureSection = Annotated[
    BarsSection
    | AlphaSection
    | ClientsSection
    | HeatmapSection
    | RanksSection
    | TrajectoriesSection
    | CurvesSection
    | LayersSection
    | PartitionSection,
    Field(discriminator="kind"),
]


# Tables over several data sets ------------------------------------------------------------------------------------


class ColumnSection(Section):
    """A column of a joint table: a ``table`` (id) of a study, under ``label``."""

    table: str
    label: str


class JointSection(Section):
    """A table whose columns are data sets: cells of other tables side by side, mean ranks and rank tests over them.

    ``rows`` are methods as those tables call them, shown at ``checkpoint`` or the last of each row. ``printed_ranks``
    is table:dataset:metric of the printed mean ranks. ``as_published`` adds Friedman's test the wrong way round, as
    PLayer-FL's code computes it.
    """

    id: Id
    title: str
    columns: Annotated[list[ColumnSection], Field(min_length=1)]
    rows: Names
    checkpoint: Checkpoint | None = None
    printed_ranks: str | None = None
    as_published: bool = False
    digits: Annotated[int, Field(ge=0, le=10)] = 3
    notes: list[str] = []


class JoinedSection(Section):
    """A file of joint tables, and of diagrams made from them."""

    joint: Annotated[list[JointSection], Field(min_length=1)]
    paper: str | None = None
    figures: list[RanksSection] = []
