"""Parser of data set cards: the facts, the citation and the raw files in a card's markdown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bench.data.files.raw_file import RawFile
from bench.types import DataError

CITATION = "Citation: "
Rows = list[list[str]]  # markdown of a table's cells, without the header


@dataclass(frozen=True)
class CardText:
    """The parts of a card that silobench reads; ``declared`` is its TOML block, whose first line is ``line``."""

    text: str = ""
    tables: tuple[Rows, ...] = ()
    citation: str = ""
    declared: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0

    @property
    def facts(self) -> dict[str, str]:
        """Source, licence, task, size, access ... of the data set: the rows of the first table."""
        return {row[0]: row[1] for row in self.tables[0] if len(row) == 2} if self.tables else {}

    def file(self, name: str) -> RawFile:
        """Return a declared raw file; its licence is the card's unless it has its own."""
        return RawFile.from_toml({"licence": self.facts.get("Licence", ""), **self.declared[name]})


@lru_cache
def read_card(card: Path) -> CardText:
    """Return the content of the file ``card``, empty if there is none; raise :class:`DataError` for invalid TOML."""
    return parse(card.read_text(encoding="utf-8"), str(card)) if card.is_file() else CardText()


def parse(text: str, where: str) -> CardText:
    """Return the content of a card's ``text``; messages begin with ``where``.

    Raw files are declared in the first TOML block that begins with a table of ``files``.
    """
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    paragraphs = [each.content for each in tokens if each.type == "inline" and each.content.startswith(CITATION)]
    citation = " ".join(paragraphs[0].removeprefix(CITATION).split()) if paragraphs else ""
    blocks = (each for each in tokens if each.type == "fence" and each.info == "toml")
    block = next((each for each in blocks if each.content.startswith(("[files]", "[files."))), None)
    if block is None:
        return CardText(text, tuple(_tables(tokens)), citation)
    line = 2 + (block.map[0] if block.map else 0)
    try:
        declared = tomllib.loads(block.content)["files"]
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where}, TOML block in line {line}: not valid TOML: {error}") from None
    return CardText(text, tuple(_tables(tokens)), citation, declared, line)


def declared_files(card: Path) -> dict[str, RawFile]:
    """Return the raw files that the file ``card`` declares, by name.

    ``name = { card = "other" }`` refers to the file with the same name in another card of the folder. Raises
    :class:`DataError` for a wrong declaration.
    """
    content = read_card(card)
    files = {}
    for name, table in content.declared.items():
        where = f"{card}, TOML block in line {content.line}: files.{name}"
        if not isinstance(table, dict):
            raise DataError(f"{where}: expected a table with path and urls or obtain")
        other = read_card(card.with_name(f"{table['card']}.md")) if "card" in table else content
        if "card" in table and (len(table) > 1 or "path" not in other.declared.get(name, ())):
            raise DataError(f"{where}: expected {{ card = NAME }} with the name of a card that declares this file")
        try:
            files[name] = other.file(name)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return files


def _tables(tokens: Sequence[Token]) -> list[Rows]:
    found: list[Rows] = []
    for before, token in pairwise(tokens):
        if before.type == "tbody_open":
            found.append([])
        if before.type == "tr_open" and token.type == "td_open":
            found[-1].append([])
        if before.type == "td_open":
            found[-1][-1].append(token.content)
    return found
