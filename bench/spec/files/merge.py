"""One way to lay a table of keys over another: for base files, profiles, defaults and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LENGTHS = {"local_steps", "local_epochs"}  # one replaces the other
PLACES = ("grid", "range", "fixed")  # a hyper-parameter is in one of them
NAMED = ("data", "model", "algorithm")  # a name, or a table of a name and options
WITH_ID = ("tables", "figures")  # lists of tables that have an id


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``above`` laid over ``below``: tables key by key, everything else replaced.

    A hyper-parameter in ``grid``, ``range`` or ``fixed`` of ``above`` leaves the other two of ``below``; local steps
    and local epochs replace each other. Options of a data set, model or algorithm are kept as long as its name stays
    the same. ``search`` is replaced as a whole. Tables and figures with the same id are merged, others are appended.
    """
    made = {key: value for key, value in below.items() if not (key in LENGTHS and LENGTHS & set(above))}
    for place in PLACES:
        if isinstance(kept := made.get(place), dict):
            moved = {name for other in PLACES if other != place for name in _keys(above.get(other))}
            made[place] = {name: value for name, value in kept.items() if name not in moved}
    for key, value in above.items():
        made[key] = _laid(key, made[key], value) if key in made else value
    return made


def table_of(choice: Any) -> Any:
    """Return a data set, model or algorithm given by name as the table that it is short for."""
    return {"name": choice} if isinstance(choice, str) else choice


def id_of(entry: Any) -> str | None:
    """Return the id of a table or figure; None if it has none, or one that is not a text."""
    name = entry.get("id") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _laid(key: str, below: Any, above: Any) -> Any:
    if key in NAMED:
        return _choice(below, above)
    if key in WITH_ID and isinstance(below, list) and isinstance(above, list):
        return _entries(below, above)
    if key != "search" and isinstance(below, dict) and isinstance(above, dict):
        return merged(below, above)
    return above


def _choice(below: Any, above: Any) -> Any:
    if isinstance(below, list) and isinstance(above, dict):  # several data sets
        return [_choice(each, above) for each in below]
    under, over = table_of(below), table_of(above)
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return above
    if "name" in under and over.get("name", under["name"]) != under["name"]:
        return above
    return merged(under, over)


def _entries(below: list[Any], above: list[Any]) -> list[Any]:
    made = list(below)
    places = {name: number for number, entry in enumerate(below) if (name := id_of(entry)) is not None}
    for entry in above:
        number = places.get(name) if (name := id_of(entry)) is not None else None
        if number is None:
            made.append(entry)
        else:
            made[number] = merged(made[number], entry)
    return made


def _keys(table: Any) -> set[str]:
    return set(table) if isinstance(table, dict) else set()
