"""Tables and figures of a study, from its runs to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.report import html
from bench.report.tables import Row, Table, TableSpec, build, run_mean, titled
from bench.spec import AlphaSection, StudySpec, TableSection
from bench.sweep.select import Search, choose
from bench.types import Chosen


def write(
    study: StudySpec, searches: Mapping[str, Search], tables: Iterable[str], figures: Iterable[str], out: Path
) -> bool:
    """Write tables and figures (ids) below ``out`` and print where; False if a cell is missing or diverged."""
    chosen = {name: choose(search, study.rule) for name, search in searches.items()}
    made: dict[str, Table] = {}
    for name in tables:
        made[name] = _table(study, study.tables[name], chosen)
        print(html.render(made[name]))
        print(*html.write(made[name], out / name), "", sep="\n")
    for name in figures:
        figure = study.figures[name]
        if figure.kind == "alpha":
            paths = _alpha(figure, searches[figure.of], chosen[figure.of], out / name)
        else:
            from bench.report.figures import bars

            panels = {each: made.get(each) or _table(study, study.tables[each], chosen) for each in figure.tables}
            made |= panels
            paths = bars(list(panels.values()), out / name, title=figure.title)
        print(*paths, "", sep="\n")
    return not any(table.incomplete for table in made.values())


def _table(study: StudySpec, section: TableSection, chosen: Mapping[str, Chosen]) -> Table:
    spec = TableSpec(
        id=section.id,
        title=section.title or study.title,
        dataset=study.dataset(section),
        metric=section.metric or _own_metric(chosen[section.rows[0].of]),
        rows=tuple(Row(row.method, row.of, row.score, tuple(row.checkpoints)) for row in section.rows),
        silo=section.silo,
        baselines=tuple(section.baselines),
        notes=tuple(section.notes),
        ranks=section.ranks,
        digits=section.digits,
        one_run=section.one_run,
    )
    return build(spec, chosen, study.printed(section))


def _alpha(figure: AlphaSection, search: Search, chosen: Chosen, stem: Path) -> list[Path]:
    from bench.report.figures import alpha_study

    metric = figure.metric or _own_metric(chosen)
    tried = search.along("alpha_lr", chosen.hyperparameters)
    runs = {
        rate: [None if record is None else run_mean(record, metric, figure.checkpoint) for record in records]
        for rate, records in tried.items()
    }
    synthetic = any(record["synthetic"] for records in tried.values() for record in records if record)
    return alpha_study(runs, stem, title=titled(figure.title, synthetic), metric=metric)


def _own_metric(chosen: Chosen) -> str:
    """The data set's first metric, as the records have it."""
    return next(record["scores"][0][3] for record in chosen.records if record)
