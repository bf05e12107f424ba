"""Profiles: the same study with less of it, to see a table within minutes instead of days::

    [profiles.short]
    seeds = [1]
    budget.rounds = 2                     # the study's; a method's own budget stays
    methods.local.budget.rounds = 5       # unless it is named
    search = { kind = "random", trials = 4 }
    data = { subsample = 0.1 }            # over the options of every data set

A profile is laid over the file key by key and then checked like any study. ``search`` is replaced as a whole, and
local epochs take the place of local steps, or the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.types import SpecError, nearest

PAPER = "paper"
KEYS = ("seeds", "budget", "search", "data", "methods")
LENGTHS = {"local_steps", "local_epochs"}


def names(content: Mapping[str, Any]) -> list[str]:
    """The profiles of a study's file, that of the file itself first."""
    return [PAPER, *content.get("profiles", {})]


def laid_over(content: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """``content`` of a study's file with a profile over it; raises :class:`SpecError` for a profile it cannot have."""
    study = {key: value for key, value in content.items() if key != "profiles"}
    profiles = content.get("profiles", {})
    if not isinstance(profiles, dict) or PAPER in profiles:
        raise SpecError(f"profiles: expected tables such as [profiles.short], none of them called {PAPER!r}")
    for name, changed in profiles.items():
        _check(f"profiles.{name}", changed, study)
    if profile != PAPER and profile not in profiles:
        raise SpecError(f"no profile {profile!r}: {nearest(profile, names(content))}")
    return study if profile == PAPER else _merged(study, profiles[profile])


def _check(where: str, changed: Any, study: Mapping[str, Any]) -> None:
    if not isinstance(changed, dict):
        raise SpecError(f"{where}: expected a table")
    for key in changed:
        if key not in KEYS:
            raise SpecError(f"{where}: unknown key {key!r}: {nearest(key, KEYS)}")
    for key in ("budget", "search", "data", "methods"):
        if not isinstance(changed.get(key, {}), dict):
            raise SpecError(f"{where}.{key}: expected a table")
    for method in changed.get("methods", {}):
        if method not in study.get("methods", {}):
            raise SpecError(f"{where}.methods.{method}: {nearest(method, study.get('methods', {}))}")


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, tables key by key, anything else replaced."""
    merged = {key: value for key, value in below.items() if not (key in LENGTHS and LENGTHS & set(above))}
    for key, value in above.items():
        under = below.get(key)
        if key == "data" and isinstance(under, str):
            under = {"name": under}
        if key == "search" or not isinstance(value, dict):
            merged[key] = value
        elif isinstance(under, list):  # several data sets
            merged[key] = [_merged(each if isinstance(each, dict) else {"name": each}, value) for each in under]
        else:
            merged[key] = _merged(under if isinstance(under, dict) else {}, value)
    return merged
