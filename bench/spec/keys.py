"""What the sections of a study's TOML file are made of: checked values, unknown keys answered, faults in our words."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from bench.types import nearest


@dataclass(frozen=True)
class Choice:
    """Something registered, with its options."""

    name: str
    options: Mapping[str, Any]


def options_by_name(choices: Iterable[Choice]) -> dict[str, list[Mapping[str, Any]]]:
    """The options that each name is chosen with, in the order of the names."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for choice in sorted(choices, key=attrgetter("name")):
        found.setdefault(choice.name, []).append(choice.options)
    return found


def _choice(value: Any) -> Choice:
    """A name, or a table of a name and options."""
    options = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError('expected a name, or a table with the key "name"')
    return Choice(name, _options(options))


def _options(value: Any) -> dict[str, Any]:
    """What can stand in a record."""
    if not isinstance(value, dict):
        raise ValueError("expected a table of options")
    return {key: _plain(each) for key, each in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise PydanticCustomError("plain", "Input should be a finite number, text, true or false, or a list") from None
    return value


Named = Annotated[Choice, PlainValidator(_choice)]
Options = Annotated[dict[str, Any], PlainValidator(_options)]
Value = Annotated[Any, PlainValidator(_plain)]
# A method's key is a word of the table's foot; an id is where the files go, below the folder of results.
Key = Annotated[str, Field(pattern=r"^[\w-]+$")]
Id = Annotated[str, Field(pattern=r"^[\w-]+(/[\w-]+)*$")]
Whole = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A table of the file; a key it does not know is answered with the nearest one."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _know_every_key(cls, section: Any) -> Any:
        for key in section if isinstance(section, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}: {nearest(key, cls.model_fields)}")
        return section


def first_fault(error: ValidationError) -> str:
    """The first thing pydantic found, in our words."""
    fault = error.errors()[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    match fault["type"]:
        case "value_error":
            return f"{where or 'study'}: {fault['ctx']['error']}"
        case "missing":
            return f"{where} is missing"
        case "too_short":
            return f"{where} is empty; give at least one"
        case "model_type" | "dict_type":
            return f"{where} = {reprlib.repr(fault['input'])}: expected a table"
        case _:
            return f"{where} = {reprlib.repr(fault['input'])}: {fault['msg'].replace('Input should be', 'expected')}"
