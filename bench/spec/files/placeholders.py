"""Placeholders such as ``{data}`` in titles, ids and other texts of tables and figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bench.limits import MAX_TEXT
from bench.types import SpecError, nearest

PLACEHOLDER = re.compile(r"\{([\w.-]+)\}")


def filled(value: Any, texts: Mapping[str, Any]) -> Any:
    """Return ``value``, a text or any nesting of lists and tables, with every placeholder replaced by its text.

    A placeholder for a list that is an entry of a list is replaced by the entries.
    Raises :class:`SpecError` for a placeholder that has no text, and for a text that becomes too long.
    """
    match value:
        case str():
            made = PLACEHOLDER.sub(lambda found: _text(found[1], texts), value)
            if len(made) > MAX_TEXT:
                raise SpecError(f"a text of {len(made):,} characters after its placeholders; at most {MAX_TEXT:,}")
            return made
        case list():
            return [each for entry in value for each in _entries(entry, texts)]
        case dict():
            return {key: filled(each, texts) for key, each in value.items()}
        case _:
            return value


def _entries(entry: Any, texts: Mapping[str, Any]) -> list[Any]:
    """Return an entry of a list with placeholders filled: several entries for a placeholder of a list."""
    found = PLACEHOLDER.fullmatch(entry) if isinstance(entry, str) else None
    several = texts.get(found[1]) if found else None
    return several if isinstance(several, list) else [filled(entry, texts)]


def names(text: str) -> set[str]:
    """Return the names of the placeholders in ``text``."""
    return set(PLACEHOLDER.findall(text))


def of_data(label: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts that a data set gives: ``{data}`` is its label, ``{data.name}`` its name, or an option."""
    return {"data": label, "data.name": name, **{f"data.{option}": value for option, value in options.items()}}


def _text(name: str, texts: Mapping[str, Any]) -> str:
    if name not in texts:
        raise SpecError(f"unknown placeholder {{{name}}}: {nearest(name, texts)}")
    return str(texts[name])
