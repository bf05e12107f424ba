"""Tables and figures of a study or of a joint file, made from chosen settings and written to files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.report.figures.study_figures import Counts, draw, ranks, title_of
from bench.report.site.content import Picture
from bench.report.site.descriptions import describe
from bench.report.tables import render, search_cost
from bench.report.tables.build import build
from bench.report.tables.joint import join
from bench.report.tables.table import Table, TableSpec, titled
from bench.spec import Joined, StudySpec, TableSection
from bench.sweep.search.selection import SearchResult, choose
from bench.types import Chosen


def write(
    study: StudySpec,
    searches: Mapping[str, SearchResult],
    tables: Iterable[str],
    figures: Iterable[str],
    out: Path,
    counts: Counts | None = None,
) -> bool:
    """Write tables and figures (ids) below ``out`` and print them; return False if a cell is missing or diverged.

    ``counts`` reads data sets, for figures of partitions.
    """
    settings = chosen(study, searches)
    made = {name: table(study, settings, name) for name in tables}
    for each in made.values():
        write_table(each, out / each.spec.id)
    for name in figures:
        figure(study, name, searches, settings, made, out / study.stem(name), counts)
    return not any(each.incomplete for each in made.values())


def write_table(table: Table, stem: Path) -> None:
    """Print a table, write its files and print their paths."""
    print(render.render(table))
    print(*render.write(table, stem), "", sep="\n")


def chosen(study: StudySpec, searches: Mapping[str, SearchResult]) -> dict[str, Chosen]:
    """Return the setting that the study's rule selects for each method."""
    return {name: choose(search, study.rule) for name, search in searches.items()}


def table(study: StudySpec, settings: Mapping[str, Chosen], name: str) -> Table:
    """Return the study's table ``name`` (id) of the chosen ``settings`` by method."""
    section = study.tables[name]
    searched = search_cost.described(
        study.methods,
        _names(section),
        len(study.seeds),
        {method: settings[method].settings for method in section.methods},
    )
    resolved = {
        "id": study.stem(section.id),
        "title": section.title or study.title,
        "dataset": study.dataset(section).name,
        "metric": section.metric or _own_metric(section, settings),
        "profile": study.profile,
        "searched": tuple(searched),
    }
    spec = TableSpec(**dict(section) | resolved)
    return build(spec, settings, study.printed(section))


def figure(
    study: StudySpec,
    name: str,
    searches: Mapping[str, SearchResult],
    settings: Mapping[str, Chosen],
    made: dict[str, Table],
    stem: Path,
    counts: Counts | None = None,
) -> Picture:
    """Draw the study's figure ``name`` (id) to ``stem``.pdf and ``stem``.png and print their paths.

    ``made`` are the study's tables by id; those that the figure needs are added.
    """
    section = study.figures[name]
    shown = {each: made.get(each) or table(study, settings, each) for each in section.drawn}
    made |= shown
    files = draw(study, section, searches, settings, shown, stem, counts)
    print(*files, "", sep="\n")
    title = title_of(study, section, settings, shown)
    return Picture(study.stem(name), title, _png(stem), describe(section, list(shown.values())))


def drawn_before(study: StudySpec, name: str, settings: Mapping[str, Chosen], stem: Path) -> Picture | None:
    """Return the study's figure ``name`` (id) as an earlier call drew it to ``stem``.png; None if there is none."""
    section = study.figures[name]
    if not _png(stem).exists() or section.drawn:
        return None
    return Picture(study.stem(name), title_of(study, section, settings, {}), _png(stem), describe(section, []))


def joint_table(joined: Joined, name: str, columns: Mapping[str, Table | str], *, partial: bool = False) -> Table:
    """Return the joint table ``name`` (id); ``columns`` are, by id, its tables or the reason why one is missing."""
    section = joined.tables[name]
    return join(section, columns, joined.printed_ranks(section), partial=partial)


def joint(joined: Joined, name: str, columns: Mapping[str, Table | str], out: Path, *, partial: bool = False) -> bool:
    """Write and print the joint table ``name`` (id); return False if a cell is missing or diverged."""
    made = joint_table(joined, name, columns, partial=partial)
    write_table(made, out / made.spec.id)
    return not made.incomplete


def diagram(joined: Joined, name: str, columns: Mapping[str, Table | str], out: Path, *, partial: bool = False) -> bool:
    """Write the figure ``name`` (id) of a joint table; return False if a cell is missing or diverged.

    Raise :class:`bench.types.SilobenchError` if the table cannot be ranked.
    """
    made = joint_table(joined, joined.figures[name].table, columns, partial=partial)
    joint_figure(joined, name, made, out)
    return not made.incomplete


def joint_figure(joined: Joined, name: str, made: Table, out: Path) -> Picture:
    """Draw the figure ``name`` (id) of a joint table below ``out`` and print the paths of its files."""
    section = joined.figures[name]
    stem = f"{name}{made.spec.id.removeprefix(section.table)}"  # what a profile adds to the names of files
    print(*ranks(section, made, out / stem), "", sep="\n")
    title = titled(section.title, made.synthetic, made.spec.profile)
    return Picture(stem, title, _png(out / stem), describe(section, [made]))


def _png(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.png")


def _names(section: TableSection) -> dict[str, str]:
    """Return the names of the methods behind a table by key; a method that is only compared with keeps its key."""
    names: dict[str, str] = {}
    for row in section.rows:
        names.setdefault(row.of, row.method)
    return names | {method: method for method in section.against if method not in names}


def _own_metric(section: TableSection, settings: Mapping[str, Chosen]) -> str:
    """Return the data set's first metric, as found in the records."""
    records = (record for method in sorted(section.methods) for record in settings[method].records if record)
    return next((record["scores"][0][3] for record in records), "score")
