"""Tables and figures of a study, from its runs to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.report.figures.study_figures import Counts, draw, ranks, title_of
from bench.report.site.document import Exhibit, Picture
from bench.report.site.pages import Made, describe
from bench.report.tables import render, search_cost
from bench.report.tables.build import build
from bench.report.tables.joint import join
from bench.report.tables.table import Row, Table, TableSpec, titled
from bench.spec import Joined, StudySpec, TableSection
from bench.sweep.selection import SearchResult, choose
from bench.types import Chosen


def write(
    study: StudySpec,
    searches: Mapping[str, SearchResult],
    tables: Iterable[str],
    figures: Iterable[str],
    out: Path,
    counts: Counts | None = None,
    into: Made | None = None,
) -> bool:
    """Write tables and figures (ids) below ``out`` and print where; False if a cell is missing or diverged.

    ``counts`` looks at data, for figures of partitions; what is made is noted in ``into`` for the report.
    """
    into = into or Made()
    settings = chosen(study, searches)
    made: dict[str, Table] = {}
    for name in tables:
        made[name] = table(study, settings, name)
        print(render.render(made[name]))
        print(*render.write(made[name], out / study.stem(name)), "", sep="\n")
        into.exhibits.append(Exhibit(made[name], settings))
    for name in figures:
        figure = study.figures[name]
        made |= {each: table(study, settings, each) for each in figure.drawn if each not in made}
        files = draw(study, figure, searches, settings, made, out / study.stem(name), counts)
        print(*files, "", sep="\n")
        title, shown = title_of(study, figure, settings, made), [made[each] for each in figure.drawn]
        into.pictures.append(_picture(name, title, files, describe(figure, shown)))
    return not any(each.incomplete for each in made.values())


def chosen(study: StudySpec, searches: Mapping[str, SearchResult]) -> dict[str, Chosen]:
    """The setting that the study's rule picks for each method."""
    return {name: choose(search, study.rule) for name, search in searches.items()}


def table(study: StudySpec, settings: Mapping[str, Chosen], name: str) -> Table:
    """The study's table ``name`` (id) of the chosen ``settings`` by method."""
    section = study.tables[name]
    spec = TableSpec(
        id=study.stem(section.id),
        title=section.title or study.title,
        dataset=study.dataset(section).name,
        metric=section.metric or _own_metric(section, settings),
        rows=tuple(
            Row(row.method, row.of, row.score, tuple(row.checkpoints), row.metric, row.compared) for row in section.rows
        ),
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
        searched=tuple(search_cost.described(study.methods, _names(section), len(study.seeds))),
    )
    return build(spec, settings, study.printed(section))


def joint(
    joined: Joined, name: str, columns: Mapping[str, Table | str], out: Path, *, partial: bool = False,
    into: Made | None = None,
) -> bool:  # fmt: skip
    """Write the joint table ``name`` (id); ``columns`` are, by id, its tables or in words why one is missing.

    False if a cell is missing or diverged.
    """
    made = _joined(joined, name, columns, partial)
    print(render.render(made))
    print(*render.write(made, out / made.spec.id), "", sep="\n")
    if into is not None:
        into.exhibits.append(Exhibit(made))
    return not made.incomplete


def diagram(
    joined: Joined, name: str, columns: Mapping[str, Table | str], out: Path, *, partial: bool = False,
    into: Made | None = None,
) -> bool:  # fmt: skip
    """Write the figure ``name`` (id) of a joint table; raises :class:`SilobenchError` when it is not to be ranked."""
    figure = joined.figures[name]
    made = _joined(joined, figure.table, columns, partial)
    suffix = made.spec.id.removeprefix(figure.table)
    files = ranks(figure, made, out / f"{name}{suffix}")
    print(*files, "", sep="\n")
    if into is not None:
        title = titled(figure.title, made.synthetic, made.spec.profile)
        into.pictures.append(_picture(name, title, files, describe(figure, [made])))
    return not made.incomplete


def _picture(name: str, title: str, files: Iterable[Path], alt: str) -> Picture:
    return Picture(name, title, next(file for file in files if file.suffix == ".png"), alt)


def _joined(joined: Joined, name: str, columns: Mapping[str, Table | str], partial: bool) -> Table:
    section = joined.tables[name]
    return join(section, columns, joined.printed_ranks(section), partial=partial)


def _names(section: TableSection) -> dict[str, str]:
    """What a table calls the methods behind it, by key; one that is only held against has its key."""
    names: dict[str, str] = {}
    for row in section.rows:
        names.setdefault(row.of, row.method)
    return names | {method: method for method in section.against if method not in names}


def _own_metric(section: TableSection, settings: Mapping[str, Chosen]) -> str:
    """The data set's first metric, as the records have it."""
    records = (record for method in sorted(section.methods) for record in settings[method].records if record)
    return next((record["scores"][0][3] for record in records), "score")
