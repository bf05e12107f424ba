"""Types of the values in a study file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from bench.spec.sections.faults import shown
from bench.types import nearest


@dataclass(frozen=True)
class Choice:
    """Something registered, with its options."""

    name: str
    options: Mapping[str, Any]


def options_by_name(choices: Iterable[Choice]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the options that each name is chosen with, names in alphabetical order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for choice in sorted(choices, key=attrgetter("name")):
        found.setdefault(choice.name, []).append(choice.options)
    return found


def choice(value: Any) -> Choice:
    """Return the choice given by a name, or by a table of a name and options; raise ValueError for others."""
    options = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f'expected a name, or a table with the key "name", got {shown(value)}')
    return Choice(name, _options(options))


def choices(value: Any) -> list[Choice]:
    """Return one choice, or a list of several, as a list."""
    several = value if isinstance(value, list) else [value]
    if not several:
        raise ValueError("empty; give at least one")
    return [choice(each) for each in several]


def _options(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a table of options, got {shown(value)}")
    return {key: _plain(each) for key, each in value.items()}


def _plain(value: Any) -> Any:
    """Return ``value`` if a record can hold it."""
    if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"expected a finite number, text, true, false or a list, got {shown(value)}") from None
    return value


def _matching(pattern: str, expected: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"expected {expected}, got {shown(value)}")
        return value

    return check


Named = Annotated[Choice, PlainValidator(choice)]
Options = Annotated[dict[str, Any], PlainValidator(_options)]
Value = Annotated[Any, PlainValidator(_plain)]
# The table's footnotes name a method by its key.
Key = Annotated[str, AfterValidator(_matching(r"[\w-]+", "letters, digits, - and _"))]
# Files are named after an id, below the folder of results. Placeholders are replaced later.
Id = Annotated[
    str,
    AfterValidator(
        _matching(r"([\w-]|\{[\w.-]+\})+(/([\w-]|\{[\w.-]+\})+)*", "letters, digits, -, _ and / between them")
    ),
]
Whole = Annotated[int, Field(ge=1)]
Score = Annotated[str, AfterValidator(_matching(r"own|model \d+", '"own", or "model" and the number of a client'))]


class Section(BaseModel):
    """A table of the file; an unknown key is answered with the nearest one."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, section: Any) -> Any:
        for key in section if isinstance(section, dict) else ():
            if key not in cls.model_fields:
                context = {"key": key, "hint": nearest(key, cls.model_fields)}
                raise PydanticCustomError("unknown_key", "unknown key", context)
        return section
