"""Types of the values in a study file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from bench.limits import MAX_COUNT, MAX_NAME
from bench.spec.sections import names
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
    if len(name) > MAX_NAME:
        raise ValueError(f"expected a name of at most {MAX_NAME} characters, got {shown(name)}")
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


def text(value: Any) -> str | int | list[str]:
    """Return the text of a placeholder, or several; raise ValueError for others."""
    one = isinstance(value, str | int) and not isinstance(value, bool)
    if not one and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise ValueError(f"expected a text, a whole number or a list of texts, got {shown(value)}")
    return value


def score(value: str) -> str:
    """Return the score of a row; raise ValueError for others."""
    if not re.fullmatch(r"own|model [0-9]{1,9}", value):
        raise ValueError(f'expected "own", or "model" and the number of a client, got {shown(value)}')
    return value


Named = Annotated[Choice, PlainValidator(choice)]
Options = Annotated[dict[str, Any], PlainValidator(_options)]
Value = Annotated[Any, PlainValidator(_plain)]
# The table's footnotes name a method by its key.
Key = Annotated[str, AfterValidator(names.check_name)]
Id = Annotated[str, AfterValidator(names.check_id)]
Label = Annotated[str, AfterValidator(names.check_label)]
Text = Annotated[str | int | list[str], PlainValidator(text)]
Whole = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Score = Annotated[str, AfterValidator(score)]


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
