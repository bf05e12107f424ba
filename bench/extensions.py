"""What installed packages add: modules named by entry points of the group ``silobench.<kind>``.

A package offers a module in its ``pyproject.toml``::

    [project.entry-points."silobench.algorithms"]
    fedavgm = "my_package.fedavgm"

and the module registers with ``@register("name")``, as a file of ours does. It is found here without being imported.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from bench.types import SpecError


def modules(kind: str) -> dict[str, Path]:
    """The source files of all modules that installed packages offer, by module name, in alphabetical order.

    Raises :class:`SpecError` for an entry point whose module is not there.
    """
    points = sorted(entry_points(group=f"silobench.{kind}"), key=lambda point: (point.module, point.name))
    return {point.module: _source(point) for point in points}


def _source(point: EntryPoint) -> Path:
    """The file of an entry point's module: what importing it would read, without importing its parents either."""
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
