"""The keys of figures, one class for each kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.spec.sections.keys import Id, Section
from bench.spec.sections.tables import Names, Weights

VALIDATION = "validation"  # among the scores of a figure of curves: the aggregated validation loss


class Figure(Section):
    """Keys that all figures have."""

    id: Id = Field(description="Name of the figure and of its files; a table may have the same.")
    title: str = Field(description="Title.")

    @property
    def drawn(self) -> list[str]:
        """Ids of the tables that the figure is made from."""
        return []

    @property
    def methods(self) -> set[str]:
        """Keys of the methods that the figure is made from, besides those of its tables."""
        return set()

    @property
    def metrics(self) -> set[str]:
        """Metrics that the figure names."""
        return set()


class BarsSection(Figure):
    """A bar chart with a panel for each of several tables."""

    kind: Literal["bars"]
    tables: Names = Field(description="Ids of the tables.")

    @property
    def drawn(self) -> list[str]:
        return self.tables


class OfTable(Figure):
    """A figure of one of the study's tables."""

    table: str = Field(description="Id of the table.")

    @property
    def drawn(self) -> list[str]:
        return [self.table]


class ClientsSection(OfTable):
    """A bar for each client and row of a table."""

    kind: Literal["clients"]


class HeatmapSection(OfTable):
    """The rows of a table by the clients that they are tested on."""

    kind: Literal["heatmap"]


class RanksSection(OfTable):
    """The critical-difference diagram of a table over its clients, or of a joint table over its columns."""

    kind: Literal["cd"]


class OfMethod(Figure):
    """A figure of one of the study's methods."""

    of: str = Field(description="Key of the method.")

    @property
    def methods(self) -> set[str]:
        return {self.of}


class AlphaSection(OfMethod):
    """Scores of APFL by its learning rate for alpha, with the other hyper-parameters as selected."""

    kind: Literal["alpha"]
    metric: str | None = Field(default=None, description="Metric shown; by default the data set's first.")
    checkpoint: Literal["latest", "global", "local"] = Field(default="local", description="Checkpoint shown.")

    @property
    def metrics(self) -> set[str]:
        return {self.metric} if self.metric else set()


class TrajectoriesSection(OfMethod):
    """A traced quantity of a method by round, in the run of the first seed.

    Of vectors with an entry for each client, the left panel shows the vector of `client`, the right panel the own
    entry of every client.
    """

    kind: Literal["trajectories"]
    trace: str = Field(default="p", description="Name of the traced quantity.")
    client: int = Field(default=0, ge=0, description="Number of the client in the left panel.")
    absolute: bool = Field(default=False, description="Show absolute values.")


class CurveRow(Section):
    """One line of a figure of curves. In a file, the key of a method is short for a line of this method."""

    method: str = Field(description="Name of the line; by default the method's `label`.")
    of: str = Field(description="Key of the method.")


class CurvesSection(Figure):
    """Learning curves of some methods, with a panel for each score."""

    kind: Literal["curves"]
    rows: Annotated[list[CurveRow], Field(min_length=1)] = Field(
        description="Lines: a list of methods' keys, names of `[rows]` and tables; by default all methods."
    )
    scores: Names = Field(description='Metrics tested during training, or "validation" for the validation loss.')
    weights: Weights = Field(default="equal", description="Weights of the clients in a mean over clients.")

    @property
    def methods(self) -> set[str]:
        return {row.of for row in self.rows}

    @property
    def metrics(self) -> set[str]:
        return set(self.scores) - {VALIDATION}


class LayersSection(OfMethod):
    """Traced quantities of a method by layer, with a line for each client."""

    kind: Literal["layers"]
    traces: Names = Field(description="Names of the traced quantities.")
    round: Literal["first", "last"] = Field(default="first", description="Round shown.")
    normalise: Literal["none", "first", "min"] = Field(
        default="none", description="Divide the values of each client by that of its first layer, or by the smallest."
    )
    log: bool = Field(default=False, description="Use a logarithmic axis.")
    names: list[str] = Field(default=[], description="Names of the layers.")


class PartitionSection(Figure):
    """The number of training samples of each class at each client."""

    kind: Literal["partition"]
    data: str | None = Field(default=None, description="Label of the data set, if the study has several.")


FIGURES = (
    BarsSection,
    ClientsSection,
    HeatmapSection,
    RanksSection,
    CurvesSection,
    PartitionSection,
    AlphaSection,
    TrajectoriesSection,
    LayersSection,
)
FigureSection = Annotated[
    BarsSection
    | ClientsSection
    | HeatmapSection
    | RanksSection
    | CurvesSection
    | PartitionSection
    | AlphaSection
    | TrajectoriesSection
    | LayersSection,
    Field(discriminator="kind"),
]
