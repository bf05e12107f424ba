"""The keys of tables and their rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bench.spec.sections.keys import Id, Score, Section

# The last two pick a round of the learning curve (bench.report.learning_curves), the first of them by test samples.
Checkpoint = Literal["latest", "global", "local", "best-test (oracle)", "best-val"]
Weights = Literal["equal", "test_size"]
Names = Annotated[list[str], Field(min_length=1)]


class RowSection(Section):
    """One row of a table. In a file, the key of a method is short for a row of this method."""

    method: str = Field(description="Name of the row; by default the method's `label`.")
    of: str = Field(description="Key of the method that the row is made from.")
    score: Score = Field(
        default="own",
        description='Models that are tested: "own" tests the model of each client on the same client, "model 0" tests '
        "the model of client 0 on every client.",
    )
    checkpoints: Annotated[list[Checkpoint], Field(min_length=1)] = Field(
        default=["global", "local"], description="Checkpoints; by default those of the table that the algorithm has."
    )
    metric: str | None = Field(default=None, description="Metric of this row, if it is not the table's.")
    printed: str | None = Field(
        default=None,
        description="Place of the paper's number in its `paper.toml`: keys, and indices of list entries, with dots "
        "between them. For rows whose numbers are not in `printed.csv`.",
    )
    compared: bool = Field(
        default=True, description="Whether printed numbers and ours are of the same thing and get a verdict."
    )

    @property
    def model(self) -> int | None:
        """The one client whose model is tested on all clients; None for "own"."""
        return None if self.score == "own" else int(self.score.split()[1])

    @model_validator(mode="after")
    def _is_printed_once(self) -> RowSection:
        if self.printed is not None and len(self.checkpoints) > 1:
            raise ValueError("printed is the number of one cell; give the row one checkpoint")
        return self


class TableSection(Section):
    """A table."""

    id: Id = Field(description="Name of the table and of its files, such as `fenda/2-heart`.")
    rows: Annotated[list[RowSection], Field(min_length=1)] = Field(
        description="Rows: a list of methods' keys, names of `[rows]` and tables; or one name of `[rows]`; "
        "by default all methods."
    )
    title: str | None = Field(default=None, description="Title; by default the study's.")
    metric: str | None = Field(default=None, description="Metric shown; by default the data set's first.")
    checkpoints: list[Checkpoint] | None = Field(
        default=None,
        description='Checkpoints of all rows that name none; by default "global" (server) and "local". Personalised '
        'algorithms and baselines have no "global".',
    )
    printed: str | None = Field(default=None, description="Printed numbers: table:dataset:metric of `printed.csv`.")
    printed_unit: float = Field(default=1.0, gt=0, description="Unit of the printed numbers, such as 0.01 for percent.")
    silo: str | None = Field(default="Silo", description="Name of the row that the others are compared with.")
    baselines: list[str] = Field(default=[], description="Rows that never get an asterisk.")
    notes: list[str] = Field(default=[], description="Footnotes.")
    ranks: bool = Field(default=False, description="Add mean ranks and rank tests over the clients.")
    digits: int = Field(default=3, ge=0, le=10, description="Decimals shown; the csv file has all.")
    one_run: bool = Field(
        default=False,
        description="Each printed number is of a single run: compare it with the interval in which one further run of "
        "ours would fall.",
    )
    columns: Literal["checkpoints", "clients"] = Field(default="checkpoints", description="Meaning of the columns.")
    value: Literal["mean", "fairness", "participation", "parameters", "floats_up", "floats_down"] = Field(
        default="mean",
        description='Value of a cell: the "mean" score over clients; "fairness", the variance over clients of their '
        'medians over runs; "participation", the share of clients better off than with both methods `against`; or '
        "a number of parameters, or of floats uploaded or downloaded per client and round.",
    )
    against: list[str] = Field(default=[], description='For "participation": the keys of local training and of FedAvg.')
    center: Literal["mean", "median"] = Field(default="mean", description="Average over runs.")
    interval: Literal["t", "normal", "bootstrap"] = Field(default="t", description="95 % interval over runs.")
    weights: Weights = Field(default="equal", description="Weights of the clients in a mean over clients.")

    @model_validator(mode="after")
    def _is_printed_in_one_place(self) -> TableSection:
        if self.printed is not None and any(row.printed is not None for row in self.rows):
            raise ValueError("printed is given for the table and for a row of it; remove one")
        return self

    @model_validator(mode="after")
    def _fits_its_value(self) -> TableSection:
        if self.value == "participation" and len(self.against) != 2:
            raise ValueError('value = "participation" needs against = [local training, FedAvg], two of the methods')
        if self.against and self.value != "participation":
            raise ValueError(f'against has no meaning for value = "{self.value}"; remove it')
        if self.columns == "clients" and self.value not in ("mean", "parameters"):
            raise ValueError(f'columns = "clients" has no meaning for value = "{self.value}"; remove it')
        if self.center == "median" and self.interval != "bootstrap":
            raise ValueError('center = "median" needs interval = "bootstrap"')
        return self

    @property
    def methods(self) -> set[str]:
        """Keys of the methods that the table is made from."""
        return {row.of for row in self.rows} | set(self.against)

    @property
    def metrics(self) -> set[str]:
        """Metrics that the table names."""
        return {metric for metric in (self.metric, *(row.metric for row in self.rows)) if metric is not None}
