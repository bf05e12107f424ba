"""What the commands that make tables and figures have in common: which studies are behind one, and what they need."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.cli.audit import show
from bench.cli.data import class_counts
from bench.cli.plan import noted
from bench.cli.progress import duration
from bench.cli.training import How, training
from bench.types import DataError, SpecError, nearest

if TYPE_CHECKING:
    from bench.report.tables.table import Table
    from bench.spec import Choice, JointSection, StudySpec
    from bench.sweep.runner import Runner

Kind = Literal["tables", "figures"]
KINDS: tuple[Kind, ...] = ("tables", "figures")


@dataclass(frozen=True)
class Place:
    """Where records are kept, where tables and figures go, and where raw data lie."""

    store: Path
    out: Path
    data: Path | None


def reproduce(kind: Kind, name: str, profile: str, place: Place, how: How, *, partial: bool = False) -> bool:
    """Run what a table or figure of experiments/ needs and the store lacks, and write it; False if a cell is missing.

    A table over several studies shows a column as missing whose data are not to be had. The number of a printed table
    ("fenda/2") stands for all that are made of it ("fenda/2-heart" ...); of one without results ("fenda/6": sizes) the
    claims of the audit are shown.
    """
    from bench.report import publish
    from bench.spec import claimed, joint, published, read

    known = published(kind)
    if name in known:
        study = read(known[name].file, profile)
        return make(study, [name] * (kind == "tables"), [name] * (kind == "figures"), place, how)
    joined = joint(kind)
    if name not in joined:
        parts = [each for each in (*known, *joined) if each.startswith(f"{name}-")]
        if parts:
            return _at_hand(kind, parts, profile, place, how, partial=partial)
        if kind == "tables" and name in claimed():
            _show_claims(name)
            return True
        raise SpecError(f"unknown {kind[:-1]} {name!r}: {nearest(name, [*known, *joined])}")
    file = joined[name]
    section = file.tables[name if kind == "tables" else file.figures[name].table]
    with training(how, place.store, place.data) as runner:
        columns = _columns(section, profile, place, runner)
    write = publish.joint if kind == "tables" else publish.diagram
    return write(file, name, columns, place.out, partial=partial)


def _show_claims(name: str) -> None:
    """Print what the audit finds about a printed table."""
    from bench.report.audit.findings import audit, of_table

    show(of_table(audit(name.partition("/")[0]), name), full=True)


def make(study: StudySpec, tables: Iterable[str], figures: Iterable[str], place: Place, how: How) -> bool:
    """Run what tables and figures of a study (ids) need and the store lacks, and write them."""
    from bench.report import publish
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    tables, figures = list(tables), list(figures)
    methods = study.methods_behind(tables, figures)
    with training(how, place.store, place.data) as runner:
        searches = run_study(study, Store(place.store), methods=methods, root=place.data, runner=runner)
    return publish.write(study, searches, tables, figures, place.out, counts(place.data))


def _columns(section: JointSection, profile: str, place: Place, runner: Runner | None) -> dict[str, Table | str]:
    """The tables that a joint table is made from, by id, or why one cannot be made."""
    from bench.report import publish
    from bench.spec import published, read
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    known = published("tables")
    columns: dict[str, Table | str] = {}
    for name in dict.fromkeys(column.table for column in section.columns):
        study = read(known[name].file, profile)
        methods = study.methods_behind([name], [])
        try:
            searches = run_study(study, Store(place.store), methods=methods, root=place.data, runner=runner)
        except DataError as error:
            columns[name] = str(error)
        else:
            columns[name] = publish.table(study, publish.chosen(study, searches), name)
    return columns


def reproduce_paper(paper: str, profile: str, place: Place, how: How) -> bool:
    """Run and write every table and figure in a folder of experiments/ whose data are at hand."""
    from bench.registry import folder
    from bench.spec import joint, published

    papers = sorted({file.parent.name for file in folder("experiments").glob("*/*.toml")})
    if paper not in papers:
        raise SpecError(f"unknown paper {paper!r}: {nearest(paper, papers)}")
    whole = True
    for kind in KINDS:
        files = {name: entry.file for name, entry in published(kind).items()}
        files |= {name: each.file for name, each in joint(kind).items()}
        names = [name for name, file in files.items() if file.parent.name == paper]
        whole &= _at_hand(kind, names, profile, place, how)
    return whole


def _at_hand(
    kind: Kind, names: Collection[str], profile: str, place: Place, how: How, *, partial: bool = False
) -> bool:
    """Reproduce those tables or figures whose data are at hand; False if one is left out, or a cell is missing."""
    whole = True
    for entry in (entry for entry in listed(kind, place.data) if entry["name"] in names):
        if entry["ready"] and profile in entry["profiles"]:
            whole &= reproduce(kind, entry["name"], profile, place, how, partial=partial)
            continue
        why = f"no profile {profile!r}" if entry["ready"] else "its data are not all at hand"
        print(f"{entry['name']}: left out, {why}", file=sys.stderr)
        whole = False
    return whole


def report(profile: str, place: Place, site: Path) -> bool:
    """Write every table and figure that has records for all its methods, and the site of them all.

    Nothing is trained or downloaded. False if a cell is missing or diverged.
    """
    from bench.data.files import download

    with download.forbidden("a report"):
        return _report(profile, place, site)


def _report(profile: str, place: Place, site: Path) -> bool:
    from bench.report import publish
    from bench.report.site import pages
    from bench.report.site.document import write
    from bench.spec import joint, published, read
    from bench.sweep.store import Store
    from bench.sweep.study import run_study

    made: dict[Path, pages.Made] = defaultdict(pages.Made)
    done: set[str] = set()
    whole = True
    for file in dict.fromkeys(entry.file for kind in KINDS for entry in published(kind).values()):
        study = read(file, profile)
        try:
            searches = run_study(study, Store(place.store), root=place.data)
        except DataError as error:
            print(f"{file}: left out, {error}", file=sys.stderr)
            continue
        begun = {name for name, search in searches.items() if any(map(any, search.records))}
        tables = [name for name in study.tables if study.methods_behind([name], []) <= begun]
        figures = [name for name in study.figures if begun and study.methods_behind([], [name]) <= begun]
        whole &= publish.write(study, searches, tables, figures, place.out, counts(place.data), made[file.parent])
        done |= set(tables)
    for name, joined in joint("tables").items():
        section = joined.tables[name]
        if done & {column.table for column in section.columns}:
            columns, into = _columns(section, profile, place, None), made[joined.file.parent]
            complete = publish.joint(joined, name, columns, place.out, into=into)
            # Ranks need every run.
            for figure in joined.figures.values() if complete else ():
                if figure.table == name:
                    publish.diagram(joined, figure.id, columns, place.out, into=into)
            whole &= complete
    print(*write(pages.gather(made, place.store), site), sep="\n")
    return whole


def counts(root: Path | None) -> Any:
    """A function that counts a data set's training samples by client and class, for figures of partitions."""

    def look(data: Choice) -> tuple[Sequence[Sequence[int]], Sequence[str], bool]:
        from bench.data import load_dataset

        federation = load_dataset(data.name, root, **data.options)
        return class_counts(federation), [client.name for client in federation.clients], federation.synthetic

    return look


# What there is, and what it needs -----------------------------------------------------------------------------------


def listed(kind: Kind, root: Path | None = None) -> Iterator[dict[str, Any]]:
    """Every table or figure of experiments/ with the data, runs and profiles behind it.

    ``ready`` says that all its data are at hand, or need no files; ``seconds`` what all of its studies take on this
    machine with one worker, by profile, None where that was never planned. Nothing needs ``gpu_hours``: the engine
    computes on the CPU.
    """
    from bench.spec import claimed, joint, profile_names, published, read

    known = published("tables")
    studies = {entry.file: read(entry.file) for each in ("tables", "figures") for entry in published(each).values()}
    profiles = {file: profile_names(file) for file in studies}
    for entry in published(kind).values():
        study = studies[entry.file]
        methods = study.methods_behind([entry.id] * (kind == "tables"), [entry.id] * (kind == "figures"))
        # A figure of a partition has no runs behind it.
        data = [study.methods[method].data for method in methods or study.methods]
        yield _needs(entry.id, entry.title, study.runs(methods), data, profiles[entry.file], {entry.file}, root)
    for name, file in joint(kind).items():
        section = file.tables[name if kind == "tables" else file.figures[name].table]
        title = file.tables[name].title if kind == "tables" else file.figures[name].title
        behind = [(studies[known[column.table].file], column.table) for column in section.columns]
        runs = sum(study.runs(study.methods_behind([table], [])) for study, table in behind)
        data = [study.dataset(study.tables[table]) for study, table in behind]
        common = [each for each in profiles[behind[0][0].file] if all(each in profiles[s.file] for s, _ in behind)]
        yield _needs(name, title, runs, data, common, {study.file for study, _ in behind}, root)
    for name, claims in claimed().items() if kind == "tables" else ():
        title = f"no results; {claims} claim{'s' * (claims != 1)} of the audit"
        yield _needs(name, title, 0, [], ["paper"], set(), root)


def text(entry: Mapping[str, Any]) -> str:
    """An entry in two lines, the second one indented."""
    if not entry["runs"] and not entry["data"]:
        return f"{entry['name']}  {entry['summary']}\n    nothing is trained; can run now"
    data = ", ".join(f"{name} ({state})" for name, state in entry["data"].items())
    runs = f"{entry['runs']:,} run{'s' * (entry['runs'] != 1)}"
    can = "can run now" if entry["ready"] else "its data are not all at hand"
    profiles = ", ".join(
        each if took is None else f"{each} (about {duration(took)} here for all of its study)"
        for each, took in entry["seconds"].items()
    )
    return f"{entry['name']}  {entry['summary']}\n    {runs}, no GPU needed; {data}; profiles {profiles}; {can}"


def _needs(
    name: str,
    title: str,
    runs: int,
    data: Iterable[Choice],
    profiles: Sequence[str],
    studies: Collection[Path],
    root: Path | None,
) -> dict[str, Any]:
    from bench.data.files import cards
    from bench.spec import options_by_name

    needed = {each: (cards.read(each), options) for each, options in options_by_name(data).items()}
    states = {
        each: card.elsewhere.rstrip(".") or card.at_hand(root, *options) for each, (card, options) in needed.items()
    }
    ready = all(state in ("none needed", "all files") for state in states.values())
    times = {profile: [noted(study, profile) for study in studies] for profile in profiles}
    return {
        "name": name,
        "summary": title,
        "runs": runs,
        "gpu_hours": 0,
        "data": states,
        "profiles": list(profiles),
        "seconds": {profile: None if None in took else sum(filter(None, took)) for profile, took in times.items()},
        "ready": ready,
    }
