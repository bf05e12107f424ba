"""Inheritance of methods: ``[defaults]`` and ``[budget]`` of the study under the keys of each method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.limits import MAX_METHODS
from bench.spec.files.merge import PLACES, merged, table_of
from bench.spec.sections.faults import StudyError
from bench.spec.sections.study import DefaultsSection
from bench.types import nearest

KEYS = tuple(DefaultsSection.model_fields)
OF_STUDY = ("budget", "search", "data")


def with_defaults(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``content`` of a study with methods that have everything they inherit; raises :class:`StudyError`.

    An algorithm without a name is the one that the method's key names.
    """
    defaults = content.get("defaults", {})
    if not isinstance(defaults, dict):
        raise StudyError(("defaults",), "expected a table")
    for key in defaults:
        if key in OF_STUDY:
            raise StudyError(("defaults", key), f"write [{key}], which holds for all methods")
        if key not in KEYS:
            raise StudyError(("defaults", key), f"unknown key: {nearest(key, KEYS)}")
    made = {key: value for key, value in content.items() if key != "defaults"}
    if isinstance(methods := content.get("methods"), dict):
        data = content.get("data")
        several = len(methods) * (len(data) if isinstance(data, list) else 1)
        if several > MAX_METHODS:
            raise StudyError(("methods",), f"{several:,} methods (times data sets) are more than {MAX_METHODS:,}")
        budget = content.get("budget", {})
        made["methods"] = {key: _method(key, method, defaults, budget) for key, method in methods.items()}
    return made


def _kept(key: str, dropped: Any, defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the defaults without the hyper-parameters that a method drops."""
    if not isinstance(dropped, list):
        return defaults  # refused when types are checked
    tables = {place: defaults[place] for place in PLACES if isinstance(defaults.get(place), dict)}
    inherited = {name for table in tables.values() for name in table}
    for name in dropped:
        if not isinstance(name, str) or name not in inherited:
            hint = nearest(name, inherited) if inherited else "there are none"
            raise StudyError(("methods", key, "drop"), f"{name!r} is no hyper-parameter of [defaults]: {hint}")
    kept = {place: {k: v for k, v in table.items() if k not in dropped} for place, table in tables.items()}
    return {**defaults, **kept}


def _method(key: str, method: Any, defaults: Mapping[str, Any], budget: Any) -> Any:
    if not isinstance(method, dict):
        return method
    made = merged(_kept(key, method.get("drop", []), defaults), method)
    own = method.get("budget", {})
    if isinstance(budget, dict) and isinstance(own, dict):
        made["budget"] = merged(budget, own)
    if isinstance(algorithm := table_of(made.get("algorithm")), dict):
        made["algorithm"] = {"name": key, **algorithm}
    return made
