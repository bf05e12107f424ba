"""Faults of a study file: the key that is wrong, and one line that says what was expected."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from bench.types import SpecError

EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
}


class StudyError(SpecError):
    """A fault in a study: ``where`` is the key (names and indices of list entries), ``text`` says what is wrong."""

    def __init__(self, where: Sequence[str | int], text: str) -> None:
        super().__init__(f"{dotted(where)}: {text}" if where else text)
        self.where = tuple(where)
        self.text = text


def dotted(where: Sequence[str | int]) -> str:
    """Return a key as it is written in TOML, list entries by index: ``tables[0].rows[1].of``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in where)
    return "".join(parts).lstrip(".")


def shown(value: Any) -> str:
    """Return a value as TOML writes it, shortened if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(reprlib.repr(value)[1:-1]) if isinstance(value, str) else reprlib.repr(value)


def first_fault(error: ValidationError) -> StudyError:
    """Return the first fault that pydantic found, in plain words."""
    fault = error.errors()[0]
    where = [part for part in fault["loc"] if part != "[key]"]
    given, context = fault["input"], fault.get("ctx", {})
    if where[:1] == ["figures"] and isinstance(given, dict) and len(where) > 2 and where[2] == given.get("kind"):
        del where[2]  # pydantic names the kind of figure, too
    elif where[:1] == ["figures"] and len(where) > 3:
        del where[2]
    match fault["type"]:
        case "value_error":
            return StudyError(where, str(context["error"]))
        case "unknown_key":
            return StudyError([*where, context["key"]], f"unknown key: {context['hint']}")
        case "missing":
            return StudyError(where, "missing; this key is needed")
        case "too_long":
            return StudyError(where, f"{context['actual_length']:,} entries are more than {context['max_length']:,}")
        case "too_short":
            return StudyError(where, "empty; give at least one")
        case "list_type":
            hint = "" if isinstance(given, dict) else f"; write {where[-1]} = [{shown(given)}]"
            return StudyError(where, f"expected a list, got {shown(given)}{hint}")
        case "literal_error" | "union_tag_invalid":
            said = context.get("expected") or context.get("expected_tags", "")
            if fault["type"] == "union_tag_invalid":
                where, given = [*where, "kind"], context["tag"]
            return StudyError(where, f"expected {said.replace(chr(39), chr(34))}, got {shown(given)}")
        case "union_tag_not_found":
            return StudyError([*where, "kind"], "missing; this key is needed")
        case "greater_than_equal" | "less_than_equal" | "greater_than":
            bound = {"greater_than_equal": "ge", "less_than_equal": "le", "greater_than": "gt"}[fault["type"]]
            words = {"ge": "at least", "le": "at most", "gt": "more than"}[bound]
            return StudyError(where, f"expected {words} {context[bound]:,}, got {shown(given)}")
        case kind if kind in EXPECTED:
            return StudyError(where, f"expected {EXPECTED[kind]}, got {shown(given)}")
        case _:
            return StudyError(where, f"{fault['msg']}, got {shown(given)}")


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name, ensure_ascii=False)
