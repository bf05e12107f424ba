"""Figures that a study declares: this module takes the numbers from the runs, the others draw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.report import learning_curves
from bench.report.scores import Record, run_mean
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Table, titled
from bench.spec import (
    AlphaSection,
    BarsSection,
    Choice,
    ClientsSection,
    CurvesSection,
    HeatmapSection,
    LayersSection,
    PartitionSection,
    RanksSection,
    StudySpec,
    TrajectoriesSection,
)
from bench.spec.sections.figures import VALIDATION, FigureSection
from bench.sweep.search.selection import SearchResult
from bench.types import Chosen, SilobenchError, SpecError, nearest

Counts = Callable[[Choice], tuple[Sequence[Sequence[int]], Sequence[str], bool]]
"""For a data set: training samples by client and class, the clients' names, and whether it is synthetic."""


def draw(
    study: StudySpec,
    figure: FigureSection,
    searches: Mapping[str, SearchResult],
    chosen: Mapping[str, Chosen],
    tables: Mapping[str, Table],
    stem: Path,
    counts: Counts | None = None,
) -> list[Path]:
    """Draw a figure to ``stem``.pdf and ``stem``.png; ``tables`` are the tables that it shows, by id.

    Raise :class:`SilobenchError` if its runs or its data are missing.
    """
    title = title_of(study, figure, chosen, tables)
    match figure:
        case BarsSection():
            from bench.report.figures.bar_charts import bars

            return bars([tables[each] for each in figure.tables], stem, title=figure.title)
        case AlphaSection():
            return _alpha(figure, searches[figure.of], chosen[figure.of], stem, title)
        case HeatmapSection() | ClientsSection():
            return _clients(figure, tables[figure.table], stem)
        case RanksSection():
            return ranks(figure, tables[figure.table], stem)
        case CurvesSection():
            return _curves(figure, chosen, stem, title)
        case TrajectoriesSection():
            return _trajectories(figure, _first(figure.id, chosen[figure.of]), stem, title)
        case LayersSection():
            return _layers(figure, _first(figure.id, chosen[figure.of]), stem, title)
        case PartitionSection():
            if counts is None:
                raise SilobenchError(f"figure {figure.id}: it needs the raw data, which cannot be read here")
            from bench.report.figures.partition_bars import partition

            by_client, clients, synthetic = counts(study.shown_data(figure))
            return partition(by_client, clients, stem, title=titled(figure.title, synthetic, study.profile))


def title_of(study: StudySpec, figure: FigureSection, chosen: Mapping[str, Chosen], tables: Mapping[str, Table]) -> str:
    """Return the figure's title, which says so for synthetic data and for another profile than the paper's."""
    records = [record for name in figure.methods for record in chosen[name].records if record is not None]
    synthetic = any(record["synthetic"] for record in records) or any(tables[name].synthetic for name in figure.drawn)
    return titled(figure.title, synthetic, study.profile)


def ranks(figure: RanksSection, table: Table, stem: Path) -> list[Path]:
    """Draw the critical-difference diagram of a table over its clients, or of a joint table over its data sets."""
    from bench.report.figures.critical_difference import critical_difference

    title = titled(figure.title, table.synthetic, table.spec.profile)
    stamped = f"PARTIAL: {title}" if table.partial else title
    return critical_difference(rank_table(table), stem, title=stamped, block=table.spec.block)


def _clients(figure: HeatmapSection | ClientsSection, table: Table, stem: Path) -> list[Path]:
    from bench.report.figures.client_bars import client_bars
    from bench.report.figures.heatmaps import heatmap

    title = titled(figure.title, table.synthetic, table.spec.profile)
    return (heatmap if isinstance(figure, HeatmapSection) else client_bars)(table, stem, title=title)


def _alpha(figure: AlphaSection, search: SearchResult, chosen: Chosen, stem: Path, title: str) -> list[Path]:
    from bench.report.figures.alpha_study import alpha_study

    metric = figure.metric or next(record["scores"][0][3] for record in chosen.records if record)
    runs = {
        rate: [None if record is None else run_mean(record, metric, figure.checkpoint) for record in records]
        for rate, records in search.along("alpha_lr", chosen.hyperparameters).items()
    }
    return alpha_study(runs, stem, title=title, metric=metric)


def _curves(figure: CurvesSection, chosen: Mapping[str, Chosen], stem: Path, title: str) -> list[Path]:
    from bench.report.figures import line_plots

    panels = {
        "validation loss" if score == VALIDATION else f"test {score}": {
            row.method: _curve(chosen[row.of], score, figure.weights == "test_size") for row in figure.rows
        }
        for score in figure.scores
    }
    return line_plots.curves(panels, stem, title=title)


def _curve(choice: Chosen, score: str, by_size: bool) -> tuple[Sequence[int], list[Sequence[float | None]]]:
    """Return the rounds that all runs of a method have, and each run's values after them.

    Return none if a run is missing or diverged. Runs that stop early have fewer rounds than others.
    """
    records = [record for record in choice.records if record is not None and record["status"] == "finished"]
    if len(records) < len(choice.records):
        return [], []
    if score == VALIDATION:
        curves = [dict(enumerate(record["aggregated"], start=1)) for record in records]
    else:
        curves = [_tested(record, score, by_size) for record in records]
    rounds = [round_ for round_ in curves[0] if all(round_ in curve for curve in curves)]
    return rounds, [[curve[round_] for round_ in rounds] for curve in curves]


def _tested(record: Record, score: str, by_size: bool) -> dict[int, float]:
    """Return the mean test score over clients by tested round."""
    values = learning_curves.means(record["curves"], score, record["test_sizes"] if by_size else None)
    return dict(zip(record["curves"]["rounds"], values, strict=True))


def _first(name: str, choice: Chosen) -> Record:
    """Return the run of the first seed."""
    record = choice.records[0]
    if record is None or record["status"] == "diverged":
        state = "missing" if record is None else "diverged"
        raise SilobenchError(f"figure {name}: the run of {choice.method} with seed {choice.seeds[0]} is {state}")
    return record


def _traced(name: str, record: Record, trace: str) -> Sequence[Sequence[float | Sequence[float]]]:
    traces = record["traces"]
    if trace not in traces:
        what = f"record {record['run']} has no trace {trace!r}"
        hint = nearest(trace, traces) if traces else "its algorithm traces nothing"
        raise SpecError(f"figure {name}: {what}: {hint}")
    found: Sequence[Sequence[float | Sequence[float]]] = traces[trace]
    return found


def _trajectories(figure: TrajectoriesSection, record: Record, stem: Path, title: str) -> list[Path]:
    from bench.report.figures import line_plots

    traced = _traced(figure.id, record, figure.trace)
    if figure.absolute:
        traced = [[_absolute(value) for value in of] for of in traced]
    what = f"|{figure.trace}|" if figure.absolute else figure.trace
    title = f"{title}, seed {record['spec']['seed']}"
    return line_plots.trajectories(traced, record["clients"], stem, title=title, what=what, client=figure.client)


def _absolute(value: float | Sequence[float]) -> float | list[float]:
    return [abs(each) for each in value] if isinstance(value, Sequence) else abs(value)


def _layers(figure: LayersSection, record: Record, stem: Path, title: str) -> list[Path]:
    from bench.report.figures import line_plots

    round_ = 0 if figure.round == "first" else -1
    panels = {
        trace: [_normalised(figure, value) for value in _traced(figure.id, record, trace)[round_]]
        for trace in figure.traces
    }
    title = f"{title}, {figure.round} round, seed {record['spec']['seed']}"
    return line_plots.layers(panels, record["clients"], stem, title=title, names=figure.names, log=figure.log)


def _normalised(figure: LayersSection, by_layer: float | Sequence[float]) -> list[float]:
    if not isinstance(by_layer, Sequence):
        raise SpecError(f"figure {figure.id}: {', '.join(figure.traces)}: expected a list with a number for each layer")
    unit = {"none": 1.0, "first": by_layer[0], "min": min(by_layer)}[figure.normalise]
    return [value / unit if unit else math.nan for value in by_layer]  # 0 if the model no longer learns
