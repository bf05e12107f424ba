"""The cards beside the data sets, as a program reads them: facts, files to be had, and which of these are at hand.

A card tells everything about a data set without importing it, which would import torch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby
from bench.data.files import download
from bench.files import cache_folder
from bench.types import SpecError, nearest

FACT = re.compile(r"^\| ([A-Z][^|`]*) \| (.+) \|$", re.MULTILINE)
CITATION = re.compile(r"^Citation: (.+?)\n\n", re.MULTILINE | re.DOTALL)
FILES = re.compile(r"^\| file \| bytes \| sha256 \|(?: for \|)?\n\|[-|]+\|\n((?:\|.*\|\n?)+)", re.MULTILINE)
TASK = re.compile(r"^\| `fed_.+\|$", re.MULTILINE)


@dataclass(frozen=True)
class Needed:
    """A file, below a data folder, that a data set is read from; any of the ``names`` will do.

    ``size`` in bytes and ``digest`` (SHA-256, else MD5) are None where the publisher gives none. ``only`` are options
    of the data set with the values for which it is read; none means always.
    """

    names: tuple[str, ...]
    size: int | None
    digest: str | None
    only: tuple[tuple[str, Any], ...] = ()

    def place(self, root: Path | None) -> Path | None:
        """Where it lies, unchecked: below ``root``, ``BENCH_DATA`` or in the cache, there perhaps unpacked."""
        spellings = [spelling for path in self.names for spelling in (path, Path(path).name)]
        own = [folder / spelling for folder in download.data_folders(root) for spelling in spellings]
        unpacked = [f"{path}-{self.digest[:16]}" for path in self.names] if self.digest else []
        cached = [cache_folder() / path for path in (*self.names, *unpacked)]
        return next((place for place in (*own, *cached) if place.exists()), None)


@dataclass(frozen=True)
class Card:
    """What the card of data set ``name`` says; ``facts`` is its first table, ``options`` come with their defaults.

    ``elsewhere`` says where its data are if they are not for silobench to look for.
    """

    name: str
    summary: str
    text: str
    facts: dict[str, str]
    citation: str
    files: tuple[Needed, ...]
    options: dict[str, Any]
    elsewhere: str = ""

    def needed(self, *given: Mapping[str, Any]) -> tuple[Needed, ...]:
        """The files that it is read from with any of the ``given`` options, or with those by default."""
        chosen = [{**self.options, **options} for options in given or [{}]]
        return tuple(
            file
            for file in self.files
            if any(all(options.get(name) == value for name, value in file.only) for options in chosen)
        )

    def at_hand(self, root: Path | None, *given: Mapping[str, Any]) -> str:
        """In words, how many of the files that are :meth:`needed` are."""
        files = self.needed(*given)
        if not files:
            return "none needed"
        there = sum(each.place(root) is not None for each in files)
        return "all files" if there == len(files) else f"{there} of {len(files)} files"


def read(name: str) -> Card:
    """The card of a registered data set, empty if it has none, or of a task of FLamby ("flamby:<task>").

    Raises :class:`SpecError` for an unknown name.
    """
    if name.startswith(flamby.PREFIX):
        return _of_flamby(name)
    known = registry.catalogue("datasets")
    if name not in known:
        raise SpecError(f"unknown dataset {name!r}: {nearest(name, known)}")
    file = known[name].file.with_suffix(".md")
    return parse(known[name], file.read_text(encoding="utf-8") if file.is_file() else "")


def _of_flamby(name: str) -> Card:
    """The card of a task: its row of the card of all tasks makes the facts."""
    text = (registry.folder("datasets") / "flamby.md").read_text(encoding="utf-8")
    rows = {cells[0].strip("`"): cells[1:] for cells in map(_cells, TASK.findall(text))}
    folder, task = flamby.installed(), name.removeprefix(flamby.PREFIX)
    known = {*rows, *flamby.tasks([] if folder is None else [folder])}
    if task not in known:
        raise SpecError(f"unknown FLamby task {task!r}: {nearest(task, known)}")
    unknown = ("A task of the installed FLamby.", *["see FLamby's page of the task"] * 5)
    summary, *facts = rows.get(task, unknown)
    table = dict(zip(("Source", "Licence", "Task", "Size", "Access"), facts, strict=True))
    lines = "".join(f"| {fact} | {value} |\n" for fact, value in table.items())
    citation = CITATION.search(text)
    assert citation is not None
    return Card(
        name,
        summary,
        f"# {name}\n\n{summary}\n\n| | |\n|---|---|\n{lines}\n{text[citation.start() :]}",
        table,
        " ".join(citation[1].split()),
        (),
        {},
        "FLamby is not installed." if folder is None else f"FLamby is installed in {folder.parent}.",
    )


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def parse(entry: registry.Entry, text: str) -> Card:
    """The card of ``entry`` from its markdown."""
    citation = CITATION.search(text)
    table = FILES.search(text)
    return Card(
        entry.name,
        entry.summary,
        text,
        dict(FACT.findall(text.partition("\n## ")[0])),
        " ".join(citation[1].split()) if citation else "",
        tuple(_needed(row) for row in table[1].splitlines()) if table else (),
        registry.defaults("datasets", entry.name),
    )


def _needed(row: str) -> Needed:
    names, size, digest, *only = _cells(row)
    quoted = re.compile(r"`([^`]+)`")
    found = quoted.search(digest)
    options = tomllib.loads("\n".join(quoted.findall(" ".join(only))))
    return Needed(
        tuple(quoted.findall(names)), int(size) if size else None, found[1] if found else None, tuple(options.items())
    )
