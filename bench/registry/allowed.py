"""Allowed values of options and hyper-parameters, written where the option is declared.

A function's parameter or a class's field declares bounds in its annotation, ``width: Annotated[int, Allowed(ge=1)]``,
and a choice as ``Literal["a", "b"]``; a hyper-parameter in ``searchable(0.1, ge=0)``.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from bench.types import SpecError, nearest

_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "text", NoneType: "none"}
_IN_WORDS = {
    "boolean": ("true or false", "booleans"),
    "integer": ("a whole number", "whole numbers"),
    "number": ("a finite number", "finite numbers"),
    "text": ("a text", "texts"),
}


@dataclass(frozen=True)
class Allowed:
    """Bounds (greater than, at least, less than, at most), a choice of values, and types; what is not given is free.

    Bounds hold for a number and for every number of a list. ``types``, and ``items`` of a list, are taken from the
    annotation.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    among: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    items: tuple[str, ...] = ()

    def check(self, where: str, value: Any) -> None:
        """Raise :class:`SpecError`, beginning with ``where``, unless ``value`` is allowed."""
        if self.among:
            if not any(value == each and type(value) is type(each) for each in self.among):
                raise SpecError(f"{where} = {value!r}: {nearest(value, map(str, self.among))}")
            return
        types, values = (self.items, value) if isinstance(value, list | tuple) else (self.types, [value])
        typed = types and all(any(_is(kind, each) for kind in types) for each in values)
        unchecked = not self.types and not self.items
        if not (typed or unchecked) or not all(self._within(each) for each in values if _is("number", each)):
            raise SpecError(f"{where} = {value!r}: expected {self}")

    def _within(self, number: float) -> bool:
        return (
            math.isfinite(number)
            and (self.gt is None or number > self.gt)
            and (self.ge is None or number >= self.ge)
            and (self.lt is None or number < self.lt)
            and (self.le is None or number <= self.le)
        )

    @property
    def bounds(self) -> str:
        """The bounds in words, "" without any: "at least 0 and below 1"."""
        lower = f"above {self.gt:g}" if self.gt is not None else "" if self.ge is None else f"at least {self.ge:g}"
        upper = f"below {self.lt:g}" if self.lt is not None else "" if self.le is None else f"at most {self.le:g}"
        return " and ".join(filter(None, (lower, upper)))

    def __str__(self) -> str:
        if self.among:
            return " or ".join(repr(each) for each in self.among)
        single = [_IN_WORDS[kind][0] for kind in self.types if kind != "none"]
        lists = [f"a list of {_IN_WORDS[kind][1]}" for kind in self.items]
        text = " or ".join(single + lists) or "a finite value"
        of = "of " if self.bounds.startswith("at") else ""
        return " ".join(filter(None, (text, f"{of}{self.bounds}"))) + (", or none" if "none" in self.types else "")


def of_annotation(annotation: Any) -> Allowed:
    """Return the values that an annotation allows; types other than those of a study file are not checked."""
    rule, members = _flat(annotation)
    if typing.get_origin(members[0]) is Literal:
        return replace(rule, among=typing.get_args(members[0]))
    types, items = [], []
    for member in members:
        if member in _TYPES:
            types.append(_TYPES[member])
        elif typing.get_origin(member) in (tuple, list, Sequence) and typing.get_args(member)[0] in _TYPES:
            items.append(_TYPES[typing.get_args(member)[0]])
        else:
            return rule
    return replace(rule, types=tuple(types), items=tuple(items))


def _flat(annotation: Any) -> tuple[Allowed, list[Any]]:
    """Return the bounds written in an annotation, and the types of its union."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        rules = [each for each in arguments[1:] if isinstance(each, Allowed)]
        rule, members = _flat(arguments[0])
        return (rules[0] if rules else rule), members
    if typing.get_origin(annotation) not in (Union, UnionType):
        return Allowed(), [annotation]
    parts = [_flat(each) for each in arguments]
    rule = next((rule for rule, _ in parts if rule != Allowed()), Allowed())
    return rule, [member for _, members in parts for member in members]


def _is(kind: str, value: Any) -> bool:
    match kind:
        case "none":
            return value is None
        case "boolean" | "text":
            return isinstance(value, bool if kind == "boolean" else str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)
