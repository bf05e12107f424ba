"""The rule for names: keys of methods, ids of tables and figures, profiles and labels. Files are named after them."""

from __future__ import annotations

import re

from bench.limits import MAX_NAME
from bench.spec.sections.faults import shown

NAME = r"[\w-]+"
PLACEHOLDER = r"\{[\w.-]+\}"
MAX_FILE_NAME = 200  # bytes of an id with label and profile; file systems allow 255 with a suffix


def check_name(name: str) -> str:
    """Return ``name``; raise ValueError unless it is a name."""
    return _matching(NAME, name, "letters, digits, - and _")


def check_id(name: str) -> str:
    """Return ``name``, an id that may have placeholders; raise ValueError unless it is one."""
    part = f"(?:[\\w-]|{PLACEHOLDER})+"
    return _matching(f"{part}(?:/{part})*", name, "letters, digits, -, _ and / between them")


def check_label(label: str) -> str:
    """Return ``label``, the name of a method or data set in tables; raise ValueError for control characters."""
    if not label.isprintable() or len(label) > MAX_NAME:
        raise ValueError(f"expected a text of at most {MAX_NAME} characters on one line, got {shown(label)}")
    return label


def check_file_name(name: str) -> None:
    """Raise ValueError for an id from which no file name can be made."""
    if any(len(part.encode()) > MAX_FILE_NAME for part in name.split("/")):
        raise ValueError(f"{shown(name)} is too long for the name of a file; shorten the id, the label or the profile")


def _matching(pattern: str, name: str, characters: str) -> str:
    if not re.fullmatch(pattern, name):
        raise ValueError(f"expected {characters}, got {shown(name)}")
    if len(name) > MAX_NAME:
        raise ValueError(f"expected at most {MAX_NAME} characters, got {len(name):,}")
    return name
