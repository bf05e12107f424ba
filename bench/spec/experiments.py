"""What experiments/ has to reproduce: tables and figures of single studies, and of several joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bench.registry import folder
from bench.spec import joined
from bench.spec.exhibits import JoinedSection
from bench.spec.joined import Joined
from bench.spec.keys import first_fault
from bench.spec.reading import read
from bench.spec.toml import parse
from bench.types import SpecError

NUMBER = r"(?:[A-Z]\.)?\d+"  # of a printed table: "6", "A.3"


@dataclass(frozen=True)
class Published:
    """A table or figure of a study in experiments/: its id, title, and the study's file."""

    id: str
    title: str
    file: Path


def published(kind: Literal["tables", "figures"]) -> dict[str, Published]:
    """Every table or figure of the studies in experiments/, by id; those of several studies are :func:`joint`."""
    found: dict[str, Published] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        if "methods" not in parse(file):
            continue  # a paper's printed numbers, or joint tables
        study = read(file)
        for section in (study.tables if kind == "tables" else study.figures).values():
            entry = Published(section.id, section.title or study.title, file)
            _refuse_another(kind, file, entry.id, {name: known.file for name, known in found.items()})
            found[entry.id] = entry
    return found


def claimed() -> dict[str, int]:
    """The printed tables that no study makes ("fenda/6": sizes), and how many claims of an audit are about each."""
    made = [f"{name}-" for name in (*published("tables"), *joint("tables"))]
    counts: Counter[str] = Counter()
    for file in sorted(folder("experiments").glob("*/audit.toml")):
        for claim in parse(file).get("claims", {}).values():
            where = claim.get("where") if isinstance(claim, dict) else None  # the audit says what is wrong with it
            counts.update(set(tables_named(file.parent.name, str(where))))
    return {name: n for name, n in sorted(counts.items()) if not any(each.startswith(f"{name}-") for each in made)}


def tables_named(paper: str, where: str) -> Iterator[str]:
    """The tables that a claim is about, called as our own are: "Tables A.3 and 5 to 7" names A3, 5, 6 and 7."""
    for numbers in re.findall(rf"Tables? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)", where):
        for first, last in re.findall(rf"({NUMBER})(?: to ({NUMBER}))?", numbers):
            letter = first.rstrip("0123456789")
            start, end = (int(each.removeprefix(letter)) for each in (first, last or first))
            yield from (f"{paper}/{letter.removesuffix('.')}{number}" for number in range(start, end + 1))


def joint(kind: Literal["tables", "figures"]) -> dict[str, Joined]:
    """By the id of every table over several studies of experiments/, or figure of one: the file's content."""
    known = {name: entry.file for name, entry in published(kind).items()}
    tables = published("tables")
    found: dict[str, Joined] = {}
    for file in sorted(folder("experiments").glob("*/*.toml")):
        if "joint" not in (content := parse(file)):
            continue
        try:
            content_of = joined.build(file, JoinedSection.model_validate(content), tables)
        except ValidationError as error:
            raise SpecError(f"{file}: {first_fault(error)}") from None
        except SpecError as error:
            raise SpecError(f"{file}: {error}") from None
        for name in content_of.tables if kind == "tables" else content_of.figures:
            _refuse_another(kind, file, name, known)
            known[name], found[name] = file, content_of
    return found


def _refuse_another(kind: str, file: Path, name: str, known: dict[str, Path]) -> None:
    if name in known:
        raise SpecError(f"{file}: {kind}: {name!r} stands in {known[name]} already")
