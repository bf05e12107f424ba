"""Numbers of a table's rows, over all clients and for single clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from bench.report import fairness, statistics
from bench.report.scores import Record, client_scores, run_mean, sign
from bench.report.tables.table import Cell, TableSpec
from bench.spec import RowSection
from bench.types import Chosen, SpecError


def cells(
    spec: TableSpec, row: RowSection, empty: Cell, chosen: Mapping[str, Chosen], clients: int, unscored: Collection[int]
) -> list[Cell]:
    """Return the ``empty`` cell filled over all clients, then the cells of single clients if the table has them.

    ``unscored`` clients have no test samples. Raise :class:`SpecError` for a score that the records do not hold.
    """
    behind = [chosen[row.of], *(chosen[method] for method in spec.against)]
    single = range(clients) if spec.by_client else range(0)
    checkpoint = empty.checkpoint
    if lost := _lost(behind):
        empty = replace(empty, state="missing" if lost.startswith("missing") else "diverged", note=lost)
        return [replace(empty, client=name) for name in ("all", *map(str, single))]
    runs = [[record for record in choice.records if record is not None] for choice in behind]
    if spec.value == "parameters" and spec.by_client:
        return _parameters(row, empty, runs[0], clients)
    if spec.value != "mean":
        return [_of_method(spec, row, empty, runs)]
    overall = [run_mean(record, spec.metric_of(row), checkpoint, row.model, spec.weights) for record in runs[0]]
    made = [_summed(spec, empty, overall)]
    scores = [client_scores(record, spec.metric_of(row), checkpoint, row.model) for record in runs[0]]
    for number in single:
        cell = replace(empty, client=str(number))
        if number in unscored:
            made.append(replace(cell, state="not scored", note="not scored"))
            continue
        if any(number not in score for score in scores):
            place = f"{checkpoint} {spec.metric_of(row)} on client {number}"
            raise SpecError(f"row {row.method}: score = {row.score!r}: the records hold no {place}")
        made.append(_summed(spec, cell, [score[number] for score in scores]))
    return made


def _lost(behind: Sequence[Chosen]) -> str:
    """Return the number of missing or diverged runs as text; empty if all runs finished."""
    records = [record for choice in behind for record in choice.records]
    missing = records.count(None)
    diverged = sum(record is not None and record["status"] == "diverged" for record in records)
    counts = (("missing", missing), ("diverged", diverged))
    return ", ".join(f"{what} {count}/{len(records)}" for what, count in counts if count)


def _summed(spec: TableSpec, cell: Cell, values: Sequence[float | None]) -> Cell:
    """Return the cell with center and radius over the runs in which the metric is defined."""
    defined = statistics.defined(values)
    if not defined:
        return replace(cell, state="undefined", note="undefined")
    return replace(
        cell,
        mean=statistics.mean(defined) if spec.center == "mean" else median(defined),
        ci95=_radius(spec, defined),
        normal95=statistics.normal_radius(defined) if spec.interval == "t" else None,
        n_seeds=len(defined),
    )


def _radius(spec: TableSpec, values: Sequence[float]) -> float | None:
    match spec.interval:
        case "t":
            return statistics.t_radius(values)
        case "normal":
            return statistics.normal_radius(values)
        case "bootstrap":
            interval = statistics.bootstrap(values, spec.center)
            return None if interval is None else interval.radius


def _of_method(spec: TableSpec, row: RowSection, cell: Cell, runs: Sequence[Sequence[Record]]) -> Cell:
    """Return the cell with one number of all runs, without an interval.

    ``runs`` are the runs of the row, then those of the methods ``against``.
    """
    own = runs[0]
    if spec.value in ("parameters", "floats_up", "floats_down"):
        way = spec.value.removeprefix("floats_")
        counts = [run["parameters"] if spec.value == "parameters" else run["communication"][way] for run in own]
        return replace(cell, mean=statistics.mean(counts), n_seeds=len(own))
    medians = [list(_medians(spec, row, cell.checkpoint, each)) for each in runs]
    if spec.value == "fairness":
        over = fairness.variance(medians[0])
    else:
        up = sign(spec.metric_of(row))
        better, local, fedavg = ([None if each is None else up * each for each in every] for every in medians)
        over = fairness.participation(better, local, fedavg)
    return replace(cell, mean=over.value, n_seeds=len(own))


def _parameters(row: RowSection, empty: Cell, runs: Sequence[Record], clients: int) -> list[Cell]:
    """Return the mean number of parameters of the clients' models, then that of each client's model."""
    for run in runs:
        if "client_parameters" not in run:
            text = f"run {run['run']} has no count of parameters by client, because it is from an older version"
            raise SpecError(f"row {row.method}: {text}; train it again with another --store")
    counts = [run["client_parameters"] * (clients // len(run["client_parameters"])) for run in runs]
    single = [[count[client] for count in counts] for client in range(clients)]
    filled = {"all": [statistics.mean(count) for count in counts]} | {str(c): each for c, each in enumerate(single)}
    return [replace(empty, client=c, mean=statistics.mean(each), n_seeds=len(runs)) for c, each in filled.items()]


def _medians(spec: TableSpec, row: RowSection, checkpoint: str, runs: Sequence[Record]) -> Iterator[float | None]:
    """Yield the median over runs of each client with test samples."""
    scores = [client_scores(run, spec.metric_of(row), checkpoint, row.model) for run in runs]
    clients = sorted(scores[0])
    yield from fairness.medians([[score.get(client) for client in clients] for score in scores])
