"""Profiles: the same study with less of it, to see a table within minutes instead of days.

``[profiles.short]`` holds keys that are laid over the file; see ``docs/study-file.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import filter as matching
from typing import Any

from bench.spec.files.merge import merged
from bench.spec.sections.faults import StudyError
from bench.spec.sections.names import check_name
from bench.spec.sections.study import ProfileSection
from bench.types import nearest

MAX_PROFILES = 100
MAX_PATTERNS = 100  # over methods, of one profile
PAPER = "paper"  # the file without a profile
KEYS = tuple(ProfileSection.model_fields)


def names(content: Mapping[str, Any]) -> list[str]:
    """Return the profiles of a study, "paper" first."""
    profiles = content.get("profiles", {})
    return [PAPER, *profiles] if isinstance(profiles, dict) else [PAPER]


def with_methods_named(where: tuple[str, ...], content: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``content`` whose patterns over ``known`` methods are replaced by the methods that they match.

    Keys of a method that is named win over those of patterns, later patterns over earlier ones. Raises
    :class:`StudyError` for a pattern or name that matches no method.
    """
    given = content.get("methods", {})
    made: dict[str, Any] = {}
    if (patterns := sum(map(is_pattern, given))) > MAX_PATTERNS:
        raise StudyError((*where, "methods"), f"{patterns:,} patterns are more than {MAX_PATTERNS}")
    for key, value in sorted(given.items(), key=lambda item: item[0] in known):
        found = [key] if key in known else matching(known, key)
        if not found:
            hint = "the pattern matches no method" if is_pattern(key) else f"unknown method: {nearest(key, known)}"
            raise StudyError((*where, key), hint)
        if not isinstance(value, dict):
            raise StudyError((*where, key), "expected a table")
        for method in found:
            made[method] = merged(made.get(method, {}), value)
    return {**content, "methods": made} if given else dict(content)


def is_pattern(key: str) -> bool:
    """Return whether a key of methods is a pattern, such as "fedfomo_*"."""
    return bool(set("*?[") & set(key))


def laid_over(content: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """Return the study in ``content`` with a profile over it.

    Raises :class:`StudyError` if any profile of the file is wrong, or if there is none with this name.
    """
    study = {key: value for key, value in content.items() if key != "profiles"}
    profiles = content.get("profiles", {})
    if not isinstance(profiles, dict):
        raise StudyError(("profiles",), "expected tables such as [profiles.short]")
    if PAPER in profiles:
        raise StudyError(("profiles", PAPER), "this name means the file without a profile; choose another one")
    if len(profiles) > MAX_PROFILES:
        raise StudyError(("profiles",), f"{len(profiles):,} profiles are more than {MAX_PROFILES}")
    for name in profiles:
        try:
            check_name(name)
        except ValueError as error:
            raise StudyError(("profiles", name), str(error)) from None
    methods = study.get("methods")
    methods = methods if isinstance(methods, dict) else {}
    expanded = {name: _checked(("profiles", name), changed, methods) for name, changed in profiles.items()}
    if profile != PAPER and profile not in profiles:
        raise StudyError(("profiles", profile), f"there is no such profile: {nearest(profile, names(content))}")
    return study if profile == PAPER else merged(study, expanded[profile])


def _checked(where: tuple[str, ...], changed: Any, methods: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile with methods for its patterns; raises :class:`StudyError` for keys that no profile has."""
    if not isinstance(changed, dict):
        raise StudyError(where, "expected a table")
    for key, value in changed.items():
        if key not in KEYS:
            raise StudyError((*where, key), f"unknown key: {nearest(key, KEYS)}")
        if key != "seeds" and not isinstance(value, dict):
            raise StudyError((*where, key), "expected a table")
    return with_methods_named((*where, "methods"), changed, methods)
