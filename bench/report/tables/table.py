"""Tables: the specification of rows, and the cells that fill them (see bench.report.tables.build)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, ValidationError

from bench.report.environments import RunEnvironments
from bench.report.learning_curves import ORACLE
from bench.report.scores import SHOWN, bounds, sign
from bench.report.statistics import Bounds
from bench.spec import PAPER, RowSection, TableSection
from bench.spec.sections.faults import first_fault
from bench.types import SpecError, nearest

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["table", "dataset", "metric", "method", "checkpoint", "client"]
COLUMNS += ["mean", "ci95", "n_seeds", "printed", "printed_ci95", "verdict"]


class Row(RowSection):
    """One row of a table, given as ``Row(method, of)``; further keys as in :class:`bench.spec.RowSection`."""

    model_config = ConfigDict(strict=False)

    def __init__(self, *values: Any, **named: Any) -> None:
        try:
            super().__init__(**dict(zip(RowSection.model_fields, values, strict=False)) | named)
        except ValidationError as error:
            raise first_fault(error) from None


class TableSpec(TableSection):
    """Specification of a table: the keys of :class:`bench.spec.TableSection` with title, metric and data set resolved.

    ``block`` names the clients of columns in the plural, ``summary`` is the mean over them or the mean rank.
    ``profile`` is "paper" or names a shorter study, which is not compared with printed numbers; ``searched`` are
    footnotes on how settings were found.
    """

    model_config = ConfigDict(strict=False)

    title: str
    dataset: str
    metric: str
    block: str = "clients"
    summary: Literal["mean", "rank"] = "mean"
    profile: str = PAPER
    searched: tuple[str, ...] = ()

    def __init__(self, *values: Any, **named: Any) -> None:
        first = ("id", "title", "dataset", "metric", "rows")
        try:
            super().__init__(**dict(zip(first, values, strict=False)) | named)
        except ValidationError as error:
            raise first_fault(error) from None
        names = [row.method for row in self.rows]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SpecError(f"table {self.id}: row {twice[0]!r} is given twice; give one row for each method")
        for baseline in self.baselines:
            if baseline not in names:
                raise SpecError(f"table {self.id}: baselines: no row {baseline!r}: {nearest(baseline, names)}")

    def metric_of(self, row: RowSection) -> str:
        """The metric that a row is scored by."""
        return row.metric or self.metric

    @property
    def compared(self) -> frozenset[str]:
        """The methods whose printed numbers are compared with ours."""
        return frozenset(row.method for row in self.rows if row.compared)

    @property
    def by_client(self) -> bool:
        """Whether single clients have numbers of their own."""
        return self.value == "mean" or self.columns == "clients"

    @property
    def sign(self) -> Literal[1, -1]:
        """The factor by which a number is multiplied so that higher is better."""
        if self.value == "fairness":
            return -1
        return 1 if self.value == "participation" else sign(self.metric)

    @property
    def bounds(self) -> Bounds:
        """The least and the largest possible number of the table."""
        if self.value in ("mean", "participation") and self.summary == "mean":
            return bounds("" if self.value == "participation" else self.metric)
        return (0.0, math.inf)

    @property
    def better_or_worse(self) -> bool:
        """Whether higher or lower is better; counts are neither."""
        return self.value in ("mean", "fairness", "participation")


@dataclass(frozen=True)
class Cell:
    """One number or the reason why there is none.

    ``client`` is "all" or a client number. ``mean`` is None unless every run finished; ``state`` then says what went
    wrong and ``note`` how often ("diverged 1/5"). ``ci95`` is the radius of the table's interval and ``normal95``,
    beside a t interval, that of the normal one; both are None for a single run. ``n_seeds`` counts the runs behind
    the number.
    """

    method: str
    checkpoint: str
    client: str = "all"
    mean: float | None = None
    ci95: float | None = None
    normal95: float | None = None
    n_seeds: int = 0
    state: Literal["", "missing", "diverged", "undefined", "not scored"] = ""
    note: str = ""
    above_silo: bool = False
    printed: float | None = None
    printed_ci95: float | None = None
    printed_above_silo: bool = False
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """The cells of a :class:`TableSpec` in row order, each "all" cell followed by those of the single clients.

    ``footnotes`` say how the numbers were computed; ``clients`` are the names of the clients by number. A ``partial``
    table is averaged and ranked over the available columns. ``environments`` counts the runs behind it.
    """

    spec: TableSpec
    cells: tuple[Cell, ...]
    clients: tuple[str, ...]
    synthetic: bool
    footnotes: tuple[str, ...] = ()
    partial: bool = False
    environments: Counter[RunEnvironments] = field(default_factory=Counter)

    @property
    def title(self) -> str:
        """The title, marked if numbers are synthetic, of a profile, partial, or selected by test samples."""
        title = titled(self.spec.title, self.synthetic, self.spec.profile)
        if self.partial:
            title = f"PARTIAL: {title}"
        return f"{title} (oracle)" if self.checkpoints == (ORACLE,) else title

    def cell(self, method: str, checkpoint: str, client: str = "all") -> Cell | None:
        """Return the cell at this place; None if the row does not show the checkpoint."""
        wanted = (method, checkpoint, client)
        return next((cell for cell in self.cells if (cell.method, cell.checkpoint, cell.client) == wanted), None)

    @property
    def overall(self) -> tuple[Cell, ...]:
        """The cells over all clients."""
        return tuple(cell for cell in self.cells if cell.client == "all")

    @property
    def shown(self) -> tuple[Cell, ...]:
        """The cells that the table displays: those over all clients, or all cells if clients are columns."""
        return self.cells if self.spec.columns == "clients" else self.overall

    @property
    def judged(self) -> tuple[Cell, ...]:
        """The cells shown that are compared with printed numbers; mean ranks follow from other cells."""
        compared = self.spec.compared
        followed = () if self.spec.summary == "mean" else ("all",)
        return tuple(cell for cell in self.shown if cell.method in compared and cell.client not in followed)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint rules shown by any row, in the order latest, global, local, by test and by validation."""
        shown = {cell.checkpoint for cell in self.cells}
        return tuple(checkpoint for checkpoint in SHOWN if checkpoint in shown)

    @property
    def incomplete(self) -> tuple[Cell, ...]:
        """Cells shown without a number because of missing or diverged runs."""
        return tuple(cell for cell in self.shown if cell.state in ("missing", "diverged"))

    def frame(self) -> pd.DataFrame:
        """Return all cells, unrounded, in the columns of the csv."""
        import pandas as pd

        shared = {"table": self.spec.id, "dataset": self.spec.dataset, "metric": self.spec.metric}
        own = {row.method: {"metric": row.metric} for row in self.spec.rows if row.metric}
        return pd.DataFrame([shared | own.get(cell.method, {}) | asdict(cell) for cell in self.cells], columns=COLUMNS)


def titled(title: str, synthetic: bool, profile: str = PAPER) -> str:
    """Return ``title``, marked for synthetic data and for another profile than the paper's."""
    title = title if profile == PAPER else f"{title} ({profile} profile)"
    return f"SYNTHETIC DATA: {title}" if synthetic else title
