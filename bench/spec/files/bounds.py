"""Checks of a TOML file against the limits: of its text, before it is parsed, and of its values.

Without them Python's parser needs minutes for a long key with dots and exceeds the recursion limit for nested lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bench.limits import MAX_DEPTH, MAX_NAME, MAX_TEXT, MAX_WHOLE
from bench.spec.sections.faults import StudyError

# Texts, also unclosed ones, and comments. Every part is possessive, so that the time is linear.
TEXT = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'''|\Z)"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
WORD = r'(?:[\w-]++|"")'  # of a key; texts have been replaced by ""
DOTTED = re.compile(rf"(?<![\w-]){WORD}(?:[ \t]*+\.[ \t]*+{WORD}){{{MAX_DEPTH},}}")
LONG_NUMBER = re.compile(r"(?<![\w-])\d[\d_]{4300,}")  # Python converts at most 4,300 digits
WHOLE = f"expected a whole number from {-MAX_WHOLE - 1:,} to {MAX_WHOLE:,} (64 bits)"
NESTED = f"nested too deeply; expected at most {MAX_DEPTH} tables or lists inside each other"


def check_text(content: str) -> None:
    """Raise ValueError with the line of a TOML text that is nested too deeply or has a number that is too long."""
    if content.startswith("\ufeff"):
        raise ValueError("line 1: begins with a byte order mark; save the file as UTF-8 without one")
    plain = _without_texts(content)
    places = [(match.start(), what) for pattern, what in ((DOTTED, NESTED), (LONG_NUMBER, WHOLE))
              if (match := pattern.search(plain))]  # fmt: skip
    if (deep := _deep(plain)) is not None:
        places.append((deep, NESTED))
    if places:
        place, what = min(places)
        raise ValueError(f"line {plain.count(chr(10), 0, place) + 1}: {what}")


def last_begun(content: str) -> int:
    """Return the line, counted from 1, on which the last value of a TOML text begins, which may be unclosed."""
    begun, depth = 1, 0
    for number, line in enumerate(_without_texts(content).split("\n"), 1):
        if depth <= 0 and line.strip():
            begun = number
        depth += sum(map(line.count, "[{")) - sum(map(line.count, "]}"))
    return begun


def check_values(value: Any, where: Sequence[str | int] = ()) -> None:
    """Raise :class:`StudyError` for a key or value of a parsed TOML file that exceeds a limit."""
    if len(where) > MAX_DEPTH:
        raise StudyError(where[:1], NESTED)
    if isinstance(value, dict):
        for key, each in value.items():
            if len(key) > MAX_NAME:
                raise StudyError((*where, f"{key[:20]}..."), f"a key of {len(key):,} characters; {_at_most(MAX_NAME)}")
            check_values(each, (*where, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            check_values(each, (*where, number))
    elif isinstance(value, int) and not -MAX_WHOLE - 1 <= value <= MAX_WHOLE:
        raise StudyError(where, WHOLE)
    elif isinstance(value, str) and len(value) > MAX_TEXT:
        raise StudyError(where, f"a text of {len(value):,} characters; {_at_most(MAX_TEXT)}")


def _at_most(characters: int) -> str:
    return f"expected at most {characters:,}"


def _without_texts(content: str) -> str:
    """Return a TOML text with empty texts and without comments; its lines stay the same if no text is unclosed."""
    return TEXT.sub(lambda text: "" if text[0][0] == "#" else '""' + "\n" * text[0].count("\n"), content)


def _deep(plain: str) -> int | None:
    """Return the place of the first bracket that is nested too deeply."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", plain):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH:
            return bracket.start()
    return None
