"""TOML files, parsed once for as long as their text stays the same."""

from __future__ import annotations

import re
import stat
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.limits import MAX_STUDY_BYTES
from bench.spec.files import bounds
from bench.spec.sections.faults import StudyError
from bench.types import SpecError

CACHED = 256  # files
PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def parse(file: Path) -> dict[str, Any]:
    """Return the content of ``file``, unchecked; do not change it, others share it.

    Raises :class:`SpecError` for a file that cannot be read, is not TOML, or exceeds a limit.
    """
    return parsed(file, text(file))


def text(file: Path, hint: str = "") -> str:
    """Return the text of ``file``; raises :class:`SpecError`, which ends with ``hint``, if it cannot be read."""
    try:
        if not stat.S_ISREG(file.stat().st_mode) and not file.is_dir():  # reading a pipe or a device might never end
            raise SpecError(f"{file}: is not a file with content on disk{hint}")
        with file.open("rb") as stream:
            content = stream.read(MAX_STUDY_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}{hint}") from None
    except ValueError as error:  # a null character in the name
        raise SpecError(f"{file}: {error}{hint}") from None
    if len(content) > MAX_STUDY_BYTES:
        raise SpecError(f"{file}: larger than {MAX_STUDY_BYTES:,} bytes; a study file holds settings, not data")
    try:
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = f"line {line}: is not UTF-8 text (byte 0x{content[error.start]:02x})"
        raise SpecError(f"{file}: {wrong}; save it as UTF-8") from None


@lru_cache(CACHED)
def parsed(file: Path, content: str) -> dict[str, Any]:
    """Return the table that ``content`` of ``file`` is.

    Raises :class:`SpecError` with the line that is not TOML, and for text and values that exceed a limit.
    """
    try:
        bounds.check_text(content)
        found = tomllib.loads(content)
        bounds.check_values(found)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{file}: {_place(str(error), content)}") from None
    except (StudyError, ValueError) as error:
        raise SpecError(f"{file}: {error}") from None
    return found


def _place(message: str, content: str) -> str:
    """Return ``message`` of tomllib with the line, the column and the text around it."""
    lines = content.split("\n")
    if found := PLACE.fullmatch(message):
        what, line, column = found[1], int(found[2]), int(found[3])
        start = max(0, column - 40)
        return f"line {line}, column {column}: not TOML: {what}: {lines[line - 1][start : start + 80].strip()}"
    # A value is not closed.
    what, line = message.removesuffix(" (at end of document)"), bounds.last_begun(content)
    return f"line {line}: not TOML: {what}: {lines[line - 1][:80].strip()}"
