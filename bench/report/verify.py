"""Comparison of own records with published records of the same runs and tables.

Runs of the same specification differ between processors by rounding, which training amplifies. Therefore the cells of
tables decide, and single runs only show how large the differences are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.report.environments import RunEnvironments, described
from bench.report.scores import Record
from bench.report.statistics import defined, mean
from bench.report.tables.table import Cell, Table

BORDER = 1e-12  # sums of decimals miss their value in the last bit
COUNTED = ("parameters", "floats uploaded", "floats downloaded")


@dataclass(frozen=True)
class RunDifference:
    """One quantity of one run in both stores; ``within`` says whether it differs by at most the tolerance.

    Scores are means over clients. Counted quantities must be equal.
    """

    run: str
    algorithm: str
    seed: int
    quantity: str
    ours: float | None
    published: float | None
    difference: float | None
    within: bool


@dataclass(frozen=True)
class CellDifference:
    """One cell of one table in both stores, with the radii of the 95 % intervals.

    ``allowed`` is the larger of the tolerance and the sum of both radii. ``within`` says whether the difference is at
    most that; two cells without a number agree.
    """

    table: str
    method: str
    checkpoint: str
    client: str
    ours: float | None
    ours_ci95: float | None
    published: float | None
    published_ci95: float | None
    difference: float | None
    allowed: float
    within: bool


@dataclass(frozen=True)
class Verification:
    """The comparison of two stores: the runs that both hold, and the cells of the tables that both fill.

    ``missing`` are the published tables (ids) that the own records cannot fill. ``ours`` and ``theirs`` are the
    environments of the runs behind the compared tables, with the facts in which they differ; empty if all are equal.
    """

    runs: tuple[RunDifference, ...]
    cells: tuple[CellDifference, ...]
    missing: tuple[str, ...]
    tolerance: float
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every compared cell is within its tolerance, and every counted quantity of a run is equal."""
        counts = [row for row in self.runs if row.quantity in COUNTED]
        return all(cell.within for cell in self.cells) and all(row.within for row in counts)


def compare_runs(
    ours: Mapping[str, Record], published: Mapping[str, Record], tolerance: float
) -> Iterator[RunDifference]:
    """Compare the runs (by hash) that both stores hold, one row for each quantity.

    Quantities are the mean test score at each checkpoint, the lowest validation loss, and the counts of parameters and
    of floats uploaded and downloaded.
    """
    for run in sorted(ours.keys() & published.keys()):
        own, theirs = _quantities(ours[run]), _quantities(published[run])
        for quantity in dict.fromkeys([*theirs, *own]):
            a, b = own.get(quantity), theirs.get(quantity)
            gap = None if a is None or b is None else a - b
            allowed = 0.0 if quantity in COUNTED else tolerance
            within = a is b if gap is None else abs(gap) <= allowed + BORDER
            spec = ours[run]["spec"]
            yield RunDifference(run, spec["algorithm"]["name"], spec["seed"], quantity, a, b, gap, within)


def compare_tables(ours: Table, published: Table, tolerance: float) -> Iterator[CellDifference]:
    """Compare the cells that two versions of one table show; mean ranks are left out, because cells determine them."""
    known = {_place(cell): cell for cell in ours.shown}
    for cell in published.shown:
        if published.spec.summary == "rank" and cell.client == "all":
            continue
        own = known.get(_place(cell), Cell(cell.method, cell.checkpoint, cell.client, state="missing"))
        allowed = max(tolerance, (own.ci95 or 0.0) + (cell.ci95 or 0.0))
        gap = None if own.mean is None or cell.mean is None else own.mean - cell.mean
        within = own.mean is cell.mean if gap is None else abs(gap) <= allowed + BORDER
        yield CellDifference(
            published.spec.id, *_place(cell), own.mean, own.ci95, cell.mean, cell.ci95, gap, allowed, within
        )


def compare_environments(tables: Sequence[tuple[Table, Table]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the environments behind the own and the published tables; none if all are equal."""
    ours = {each for own, _ in tables for each in own.environments}
    theirs = {each for _, published in tables for each in published.environments}
    texts = described([*ours, *theirs])
    return ((), ()) if ours == theirs else (_sorted(texts, ours), _sorted(texts, theirs))


def _sorted(texts: Mapping[RunEnvironments, str], found: Iterable[RunEnvironments]) -> tuple[str, ...]:
    return tuple(sorted(texts[each] for each in found))


def render(found: Verification, limit: int = 12) -> str:
    """Return the comparison as text: a line for each table, the cells outside the tolerance, and the runs.

    At most ``limit`` cells are listed for each table.
    """
    lines = [
        f"A cell passes if ours differs from the published value by at most {found.tolerance:g}, or by at most the "
        f"sum of both 95 % intervals."
    ]
    for table in dict.fromkeys(cell.table for cell in found.cells):
        lines += _table_lines([cell for cell in found.cells if cell.table == table], table, limit)
    lines.append(_runs_line(found))
    if found.ours:
        lines.append(f"Environments: ours {'; '.join(found.ours)}. Published: {'; '.join(found.theirs)}.")
    if found.missing:
        lines.append(f"Not compared, because their runs are not in this store: {len(found.missing)} published tables.")
    return "\n".join(lines)


def _quantities(record: Record) -> dict[str, float | None]:
    """Return the compared quantities of a record by name."""
    scores: dict[str, list[float | None]] = {}
    for checkpoint, _, _, metric, value in record["scores"]:
        scores.setdefault(f"{checkpoint} {metric}", []).append(value)
    losses = defined(record["aggregated"])
    found: dict[str, float | None] = {name: _mean(values) for name, values in scores.items()}
    return found | {
        "validation loss": min(losses, default=None),
        "parameters": record["parameters"],
        "floats uploaded": record["communication"]["up"],
        "floats downloaded": record["communication"]["down"],
    }


def _mean(values: Iterable[float | None]) -> float | None:
    kept = defined(values)
    return mean(kept) if kept else None


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.method, cell.checkpoint, cell.client


def _table_lines(cells: list[CellDifference], table: str, limit: int) -> Iterator[str]:
    outside = [cell for cell in cells if not cell.within]
    line = f"{table}: {len(cells) - len(outside)} of {len(cells)} cells pass"
    largest = max(cells, key=lambda cell: abs(cell.difference or 0.0))
    if largest.difference:
        line += f"; the largest difference is {largest.difference:+.4f} ({_name(largest)})"
    yield f"{line}."
    for cell in outside[:limit]:
        ours, published = (
            _number(*each) for each in ((cell.ours, cell.ours_ci95), (cell.published, cell.published_ci95))
        )
        yield f"  {_name(cell)}: ours {ours}, published {published}; at most {cell.allowed:.4f} is allowed"
    if len(outside) > limit:
        yield f"  and {len(outside) - limit} more cells"


def _runs_line(found: Verification) -> str:
    by_run: dict[str, list[RunDifference]] = {}
    for row in found.runs:
        by_run.setdefault(row.run, []).append(row)
    if not by_run:
        return "Runs: none is in both stores."
    equal = sum(all(row.difference == 0 or row.ours is row.published for row in rows) for rows in by_run.values())
    text = f"Runs: {len(by_run):,} are in both stores, {equal:,} of them equal"
    far = [row for row in found.runs if not row.within]
    if far:
        worst = max(far, key=lambda row: abs(row.difference or 0.0))
        text += f"; {len({row.run for row in far}):,} differ by more than the tolerance"
        if worst.difference is not None:
            text += f", most in {worst.quantity} ({worst.difference:+.4f}, run {worst.run}, {worst.algorithm})"
    return f"{text}."


def _name(cell: CellDifference) -> str:
    return f"{cell.method}, {cell.checkpoint}" + ("" if cell.client == "all" else f", client {cell.client}")


def _number(value: float | None, radius: float | None) -> str:
    if value is None:
        return "no number"
    return f"{value:.4f}" + ("" if radius is None else f" ± {radius:.4f}")
