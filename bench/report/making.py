"""Tables and figures of a study, from its runs to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.report import effort, html
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
        made[name] = table(study, chosen, name)
        print(html.render(made[name]))
        print(*html.write(made[name], out / study.stem(name)), "", sep="\n")
    for name in figures:
        figure = study.figures[name]
        if figure.kind == "alpha":
            paths = _alpha(study, figure, searches[figure.of], chosen[figure.of], out / study.stem(name))
        else:
            from bench.report.figures import bars

            made |= {each: table(study, chosen, each) for each in figure.drawn if each not in made}
            paths = bars([made[each] for each in figure.drawn], out / study.stem(name), title=figure.title)
        print(*paths, "", sep="\n")
    return not any(each.incomplete for each in made.values())


def table(study: StudySpec, chosen: Mapping[str, Chosen], name: str) -> Table:
    """The study's table ``name`` (id) of the ``chosen`` settings by method."""
    section = study.tables[name]
    spec = TableSpec(
        id=study.stem(section.id),
        title=section.title or study.title,
        dataset=study.dataset(section),
        metric=section.metric or _own_metric(section, chosen),
        rows=tuple(Row(row.method, row.of, row.score, tuple(row.checkpoints), row.metric) for row in section.rows),
        silo=section.silo,
        baselines=tuple(section.baselines),
        notes=tuple(section.notes),
        ranks=section.ranks,
        digits=section.digits,
        one_run=section.one_run,
        columns=section.columns,
        value=section.value,
        against=tuple(section.against),
        center=section.center,
        interval=section.interval,
        weights=section.weights,
        profile=study.profile,
        searched=tuple(effort.described(study.methods, _names(section), len(study.seeds))),
    )
    return build(spec, chosen, study.printed(section))


def _names(section: TableSection) -> dict[str, str]:
    """What a table calls the methods behind it, by key; one that is only held against has its key."""
    return {method: method for method in section.against} | {row.of: row.method for row in reversed(section.rows)}


def _own_metric(section: TableSection, chosen: Mapping[str, Chosen]) -> str:
    """The data set's first metric, as the records have it."""
    records = (record for method in sorted(section.methods) for record in chosen[method].records if record)
    return next((record["scores"][0][3] for record in records), "score")


def _alpha(study: StudySpec, figure: AlphaSection, search: Search, chosen: Chosen, stem: Path) -> list[Path]:
    from bench.report.figures import alpha_study

    metric = figure.metric or next(record["scores"][0][3] for record in chosen.records if record)
    tried = search.along("alpha_lr", chosen.hyperparameters)
    runs = {
        rate: [None if record is None else run_mean(record, metric, figure.checkpoint) for record in records]
        for rate, records in tried.items()
    }
    synthetic = any(record["synthetic"] for records in tried.values() for record in records if record)
    return alpha_study(runs, stem, title=titled(figure.title, synthetic, study.profile), metric=metric)
