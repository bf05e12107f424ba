"""TOML files, parsed once for as long as their text stays the same."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.types import SpecError

MAX_BYTES = 1_000_000  # a larger file is a likely mistake
MAX_LINES = 1_000  # of a file in which the begin of an unclosed value is searched
CACHED = 256  # files
PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def parse(file: Path) -> dict[str, Any]:
    """Return the content of ``file``, unchecked; do not change it, others share it.

    Raises :class:`SpecError` for a file that cannot be read or is not TOML.
    """
    return parsed(file, text(file))


def text(file: Path, hint: str = "") -> str:
    """Return the text of ``file``; raises :class:`SpecError`, which ends with ``hint``, if it cannot be read."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise SpecError(f"{file}: larger than {MAX_BYTES:,} bytes; a study file holds settings, not data")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}{hint}") from None
    except ValueError as error:  # not UTF-8
        raise SpecError(f"{file}: {error}") from None


@lru_cache(CACHED)
def parsed(file: Path, content: str) -> dict[str, Any]:
    """Return the table that ``content`` of ``file`` is; raises :class:`SpecError` with the line that is not TOML."""
    try:
        return tomllib.loads(content)
    except ValueError as error:
        raise SpecError(f"{file}: {_place(str(error), content)}") from None


def _place(message: str, content: str) -> str:
    """Return ``message`` of tomllib with the line, the column and the text around it."""
    lines = content.splitlines() or [""]
    if found := PLACE.fullmatch(message):
        what, line, column = found[1], int(found[2]), int(found[3])
        start = max(0, column - 40)
        return f"line {line}, column {column}: not TOML: {what}: {lines[line - 1][start : start + 80].strip()}"
    what = message.removesuffix(" (at end of document)")
    if len(lines) > MAX_LINES:
        return f"not TOML: {what} at the end of the file"
    # Something is not closed: name the line on which it begins.
    line = next((n for n in range(len(lines) - 1, 0, -1) if _is_toml("\n".join(lines[:n]))), 0) + 1
    return f"line {line}: not TOML: {what}: {lines[line - 1][:80].strip()}"


def _is_toml(content: str) -> bool:
    try:
        tomllib.loads(content)
    except ValueError:
        return False
    return True
