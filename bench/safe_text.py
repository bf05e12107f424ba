"""Text from outside (names, titles, file names, messages) made safe for terminals, tables and spreadsheets."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Categories of Unicode: controls, formats such as a change of direction, lone surrogates, line and paragraph ends.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
# Printable ASCII needs no look at its category.
_SUSPECT = re.compile(r"[^\n -~]")


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters as JSON escapes like ``\\u001b``; line feeds and tabs stay."""
    return _SUSPECT.sub(lambda match: match[0] if match[0] == "\t" else _escape(match[0]), text)


def printable_line(text: str) -> str:
    """Return :func:`printable` text in one line, with ``\\n`` in place of each line feed."""
    return printable(text).replace("\n", "\\n")


def without_unprintable(text: str) -> str:
    """Return ``text`` with a space in place of each unprintable character; line feeds stay."""
    return _SUSPECT.sub(lambda match: " " if _escape(match[0]) != match[0] else match[0], text)


def one_line(text: str) -> str:
    """Return ``text`` without unprintable characters, in one line with single spaces.

    A line break would end the row of a table. A format character could reverse the row's text, and LaTeX does not know
    it.
    """
    return " ".join(without_unprintable(text).split())


def csv_text(frame: pd.DataFrame) -> str:
    """Return ``frame`` as csv without its index.

    Unprintable characters become escapes: a carriage return would begin a row, and its text a cell. A text that starts
    like a formula and is no number gets an apostrophe in front. Both hold for the names of columns, too.
    """
    import pandas as pd

    safe = frame.rename(columns=_cell)
    for place, kind in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            values = [_cell(value) for value in frame.iloc[:, place]]
            safe.isetitem(place, pd.Series(values, index=frame.index, dtype=object))
    return safe.to_csv(index=False, lineterminator="\n")


def _escape(letter: str) -> str:
    if unicodedata.category(letter) not in UNPRINTABLE:
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.startswith(FORMULA) and not _is_number(value) else printable(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
