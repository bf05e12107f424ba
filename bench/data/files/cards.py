"""Data set cards: a data set's facts, options and raw files, read without importing the data set.

The card of a data set is the markdown file beside its module, with the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby
from bench.data.files.card_text import CardText, declared_files, read_card
from bench.data.files.locate import at_hand
from bench.data.files.raw_file import RawFile
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Card:
    """The card of data set ``name``, and the defaults of the data set's ``options``.

    ``facts`` is the card's first table. ``external`` says where the data are if another library keeps them.
    """

    name: str
    summary: str
    text: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    citation: str = ""
    files: tuple[RawFile, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    external: str = ""

    def needed(self, *given: Mapping[str, Any]) -> tuple[RawFile, ...]:
        """Return the files needed with any of the ``given`` options; without any, those needed by default."""
        chosen = [{**self.options, **options} for options in given or [{}]]
        return tuple(
            file
            for file in self.files
            if any(all(options.get(name) == value for name, value in file.only_with) for options in chosen)
        )

    def at_hand(self, root: Path | None, *given: Mapping[str, Any]) -> str:
        """Say how many of the needed files are on this machine."""
        files = self.needed(*given)
        if not files:
            return "none needed"
        found = sum(at_hand(each, root) is not None for each in files)
        return "all files" if found == len(files) else f"{found} of {len(files)} files"


def read(name: str) -> Card:
    """Return the card of a registered data set or of a task of FLamby ("flamby:<task>").

    A data set without a card has its summary and options only. Raises :class:`SpecError` for an unknown name and
    :class:`DataError` for a card that cannot be read.
    """
    if name.startswith(flamby.PREFIX):
        return _flamby_card(name)
    entry = registry.find("datasets", name)
    file = entry.file.with_suffix(".md")
    card, files = read_card(file), tuple(declared_files(file).values())
    options = registry.defaults("datasets", name)
    return Card(name, entry.summary, card.text, card.facts, card.citation, files, options)


def raw_files(module: str) -> dict[str, RawFile]:
    """Return the raw files of a data set by name, for its module: ``raw_files(__file__)``.

    They are declared in the card beside the module, in a TOML block of tables ``[files.<name>]`` with the fields of
    :class:`bench.data.files.raw_file.RawFile`. Raises :class:`DataError` for a card that cannot be read.
    """
    return declared_files(Path(module).with_suffix(".md"))


def _flamby_card(name: str) -> Card:
    """The card of a task of FLamby; its row in the table of tasks is the card's facts."""
    card = read_card(registry.folder("datasets") / "flamby.md")
    rows = {row[0].strip("`"): row[1:] for row in card.tables[0]}
    folder, task = flamby.installed(), name.removeprefix(flamby.PREFIX)
    known = {*rows, *flamby.tasks([] if folder is None else [folder])}
    if task not in known:
        raise SpecError(f"unknown FLamby task {task!r}: {nearest(task, known)}")
    unknown = ["A task of the installed FLamby.", *["see FLamby's page of the task"] * 5]
    summary, *values = rows.get(task, unknown)
    facts = dict(zip(("Source", "Licence", "Task", "Size", "Access"), values, strict=True))
    external = "FLamby is not installed." if folder is None else f"FLamby is installed in {folder.parent}."
    text = _task_text(name, summary, facts, card)
    return Card(name, summary, text, facts, card.citation, external=external)


def _task_text(name: str, summary: str, facts: Mapping[str, str], card: CardText) -> str:
    """The markdown of a task's card: its own facts, then what the card of all tasks says from the citation on."""
    table = "".join(f"| {fact} | {value} |\n" for fact, value in facts.items())
    return f"# {name}\n\n{summary}\n\n| | |\n|---|---|\n{table}\n{card.text[card.text.index('Citation: ') :]}"
