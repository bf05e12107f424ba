"""Hyper-parameters, options, defaults, allowed values and flags, taken from the imported classes and functions.

Inheritance, helper modules and computed defaults therefore work. Importing takes seconds (torch), so that all entries
of a kind are imported once and what they declare is kept in the cache folder (:mod:`bench.registry.stored`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bench.registry import stored
from bench.registry.allowed import Allowed, of_annotation
from bench.registry.names import SINGULAR, Entry, Kind, catalogue, find, load
from bench.types import SpecError, nearest


@dataclass(frozen=True)
class Option:
    """An option of an entry, or a hyper-parameter of an algorithm, which a run may search in the interval ``log``.

    An option that is ``required`` has no default.
    """

    default: Any
    allowed: Allowed
    required: bool = False
    searchable: bool = False
    log: tuple[float, float] | None = None


@dataclass(frozen=True)
class Declaration:
    """Declarations of one entry: its options by name, inherited ones first, and plain class variables."""

    options: Mapping[str, Option] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)


def declaration(kind: Kind, name: str) -> Declaration:
    """Return what the entry registered as ``name`` declares.

    Raises :class:`SpecError` for an unknown name, and for an entry that cannot be imported or read.
    """
    find(kind, name)
    found = _of_kind(kind, tuple(catalogue(kind).values()))[name]
    if isinstance(found, SpecError):
        raise found
    return found


def options(kind: Kind, name: str) -> list[str]:
    """Return the options that a study may give to an entry; of an algorithm, those that are no hyper-parameters."""
    return [option for option, each in declaration(kind, name).options.items() if not each.searchable]


def defaults(kind: Kind, name: str) -> dict[str, Any]:
    """Return the defaults of an entry's options, without required ones."""
    found = declaration(kind, name).options.items()
    return {option: each.default for option, each in found if not (each.searchable or each.required)}


def hyperparameters(algorithm: str) -> dict[str, Option]:
    """Return an algorithm's own hyper-parameters by name, inherited ones first."""
    return {name: each for name, each in declaration("algorithms", algorithm).options.items() if each.searchable}


def flags(algorithm: str) -> Mapping[str, Any]:
    """Return the class variables of an algorithm (``parallel``, ``optimizers`` ...), inherited ones included."""
    return declaration("algorithms", algorithm).flags


def check_options(kind: Kind, name: str, given: Mapping[str, Any]) -> None:
    """Raise :class:`SpecError` for an unknown option and for a value that is not allowed."""
    known = declaration(kind, name).options
    for option, value in given.items():
        if option not in known:
            names = options(kind, name)
            hint = nearest(option, names) if names else "it has none"
            raise SpecError(f"{SINGULAR[kind]} {name} has no option {option!r}: {hint}")
        if known[option].searchable:
            raise SpecError(f"{option} is a hyper-parameter of {name}, not an option; give it where lr is given")
        known[option].allowed.check(option, value)


@cache
def _of_kind(kind: Kind, entries: tuple[Entry, ...]) -> dict[str, Declaration | SpecError]:
    kept = stored.read(kind, entries)
    if kept is not None:
        return {name: _from_plain(each) for name, each in kept.items()}
    found = {entry.name: _read(kind, entry) for entry in entries}
    plain = {name: dataclasses.asdict(each) for name, each in found.items() if isinstance(each, Declaration)}
    if len(plain) == len(found):
        stored.write(kind, entries, [load(kind, entry.name) for entry in entries], plain)
    return found


def _read(kind: Kind, entry: Entry) -> Declaration | SpecError:
    try:
        definition = load(kind, entry.name)
        read = Declaration(
            {name: _checked(entry, name, each) for name, each in _options(kind, entry, definition)},
            dict(_class_variables(definition)) if kind == "algorithms" else {},
        )
        # As it comes from the cache, so that a first call and later ones agree.
        return _from_plain(json.loads(json.dumps(dataclasses.asdict(read))))
    except SpecError as error:
        return error


def _options(kind: Kind, entry: Entry, definition: Any) -> Iterator[tuple[str, Option]]:
    if kind == "algorithms":
        yield from _fields(entry, definition)
        return
    leading = 1 if kind == "datasets" else 2  # the data folder; inputs and outputs
    hints = _hints(definition.__init__ if inspect.isclass(definition) else definition)
    for parameter in list(inspect.signature(definition).parameters.values())[leading:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        yield parameter.name, Option(default, of_annotation(hints.get(parameter.name)), required)


def _fields(entry: Entry, definition: Any) -> Iterator[tuple[str, Option]]:
    parents = inspect.getmro(definition)
    own = [name for name, each in inspect.get_annotations(definition).items() if "ClassVar" not in str(each)]
    if not dataclasses.is_dataclass(definition) or (own and "__dataclass_fields__" not in vars(definition)):
        raise SpecError(f"{entry.file}: class {entry.definition} is not a dataclass; write @dataclass(frozen=True)")
    hints = _hints(definition)
    for each in dataclasses.fields(definition):
        if any(callable(vars(parent).get(each.name)) for parent in parents):
            raise SpecError(f"{entry.file}: {entry.definition}.{each.name} hides the hook {each.name}; rename it")
        searchable = bool(each.metadata.get("searchable"))
        allowed = each.metadata["allowed"] if searchable else of_annotation(hints.get(each.name))
        required = each.default is dataclasses.MISSING
        default = None if required else each.default
        yield each.name, Option(default, allowed, required, searchable, each.metadata.get("log"))


def _hints(definition: Any) -> dict[str, Any]:
    """Return the annotations; without those of names that exist for a type checker only, nothing is checked."""
    try:
        return typing.get_type_hints(definition, include_extras=True)
    except NameError:
        return {}


def _checked(entry: Entry, name: str, option: Option) -> Option:
    """Return ``option`` if its default can be written in a study file, and is allowed."""
    if not option.required:
        where = f"{entry.file}: {entry.definition}.{name}"
        if not _plain(option.default):
            expected = "a number, a text, true or false, none, or a list of these"
            raise SpecError(f"{where} = {option.default!r}: expected {expected} as the default")
        option.allowed.check(where, option.default)
    return option


def _class_variables(definition: type) -> Iterator[tuple[str, Any]]:
    for parent in reversed(definition.__mro__):
        for name, annotation in inspect.get_annotations(parent).items():
            if "ClassVar" in str(annotation) and _plain(value := getattr(definition, name, None)):
                yield name, value


def _plain(value: Any) -> bool:
    """Return whether JSON keeps ``value``."""
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _from_plain(content: Mapping[str, Any]) -> Declaration:
    found = {}
    for name, each in content["options"].items():
        allowed = Allowed(**{key: _tuples(value) for key, value in each.pop("allowed").items()})
        found[name] = Option(**{key: _tuples(value) for key, value in each.items()}, allowed=allowed)
    return Declaration(found, {name: _tuples(value) for name, value in content["flags"].items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
