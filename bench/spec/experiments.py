"""The studies of experiments/, their tables and figures, and the joint tables over several of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.registry import folder
from bench.spec import joined
from bench.spec.files.toml import parse
from bench.spec.joined import Joined
from bench.spec.reading import read
from bench.types import SpecError

NUMBER = r"(?:[A-Z]\.)?\d+"  # of a printed table: "6", "A.3"
BASE = "base"  # files whose names begin with it are extended by studies and are none


@dataclass(frozen=True)
class Published:
    """A table or figure of a study in experiments/: its id, title, and the study's file."""

    id: str
    title: str
    file: Path


def studies() -> list[Path]:
    """Return the files of all studies in experiments/, in alphabetical order."""
    files = sorted(folder("experiments").glob("*/*.toml"))
    return [file for file in files if not file.stem.startswith(BASE) and {"methods", "extends"} & set(parse(file))]


def published(kind: Literal["tables", "figures"]) -> dict[str, Published]:
    """Return every table or figure of a study in experiments/ by id; :func:`joint` returns those of several studies.

    Raises :class:`SpecError` if two studies have a table or figure with the same id.
    """
    found: dict[str, Published] = {}
    for file in studies():
        study = read(file)
        for section in (study.tables if kind == "tables" else study.figures).values():
            entry = Published(section.id, section.title or study.title, file)
            _refuse_another(kind, file, entry.id, {name: known.file for name, known in found.items()})
            found[entry.id] = entry
    return found


def claimed() -> dict[str, int]:
    """Return, for each printed table that no study makes ("fenda/6"), the number of claims of an audit about it."""
    made = [f"{name}-" for name in (*published("tables"), *joint("tables"))]
    counts: Counter[str] = Counter()
    for file in sorted(folder("experiments").glob("*/audit.toml")):
        for claim in parse(file).get("claims", {}).values():
            where = claim.get("where") if isinstance(claim, dict) else None  # the audit reports what is wrong with it
            counts.update(set(tables_named(file.parent.name, str(where))))
    return {name: n for name, n in sorted(counts.items()) if not any(each.startswith(f"{name}-") for each in made)}


def tables_named(paper: str, where: str) -> Iterator[str]:
    """Yield the ids of the tables that a claim is about: "Tables A.3 and 5 to 7" names A3, 5, 6 and 7."""
    for numbers in re.findall(rf"Tables? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)", where):
        for first, last in re.findall(rf"({NUMBER})(?: to ({NUMBER}))?", numbers):
            letter = first.rstrip("0123456789")
            start, end = (int(each.removeprefix(letter)) for each in (first, last or first))
            yield from (f"{paper}/{letter.removesuffix('.')}{number}" for number in range(start, end + 1))


def joint(kind: Literal["tables", "figures"]) -> dict[str, Joined]:
    """Return the file's content by the id of every joint table, or of every figure of one, in experiments/."""
    known = {name: entry.file for name, entry in published(kind).items()}
    tables = published("tables")
    found: dict[str, Joined] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        if "joint" not in parse(file):
            continue
        content = joined.read(file, tables)
        for name in content.tables if kind == "tables" else content.figures:
            _refuse_another(kind, file, name, known)
            known[name], found[name] = file, content
    return found


def _refuse_another(kind: str, file: Path, name: str, known: dict[str, Path]) -> None:
    if name in known:
        raise SpecError(f"{file}: {kind}: {name!r} is also in {known[name]}; give one of them another id")
