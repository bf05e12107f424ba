"""Modules that installed packages add, named by entry points of the group ``silobench.<kind>``.

A package names a module in its ``pyproject.toml``::

    [project.entry-points."silobench.algorithms"]
    fedavgm = "my_package.fedavgm"

The module registers its classes with ``@register("name")``. It is found here without being imported.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from bench.types import SpecError


def modules(kind: str) -> dict[str, Path]:
    """Return the source files of all modules that installed packages name, by module name, in alphabetical order.

    Raises :class:`SpecError` for an entry point whose module does not exist.
    """
    points = sorted(entry_points(group=f"silobench.{kind}"), key=lambda point: (point.module, point.name))
    return {point.module: _source(point) for point in points}


def _source(point: EntryPoint) -> Path:
    """Return the file of an entry point's module, without importing the module or its parents."""
    name, places, origin = "", None, None
    for part in point.module.split("."):
        name = f"{name}.{part}".removeprefix(".")
        finders = (finder.find_spec(name, places) for finder in sys.meta_path)
        spec = next((spec for spec in finders if spec is not None), None)
        places, origin = (spec.submodule_search_locations, spec.origin) if spec else (None, None)
        if spec is None:
            break
    if origin is None or not origin.endswith(".py"):
        package = point.dist.name if point.dist else "an installed package"
        raise SpecError(
            f"{package}: its entry point {point.name} = {point.value!r} of {point.group} names no Python file; "
            f"install the package again, or uninstall it"
        )
    return Path(origin)
