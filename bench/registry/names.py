"""Names of algorithms, models and data sets, read from source files without importing them.

A file registers a top-level class or function with ``@register("name")``. Besides the files of silobench, the modules
named by entry points of installed packages are read (:mod:`bench.extensions`).
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from bench import extensions
from bench.types import SilobenchError, SpecError, nearest

Kind = Literal["algorithms", "datasets", "models"]
Registered = TypeVar("Registered")
PACKAGE = Path(__file__).parent.parent
FLAMBY = "flamby:"  # prefix of the data sets of an installed FLamby, which are not registered
SINGULAR: dict[Kind, str] = {"algorithms": "algorithm", "datasets": "data set", "models": "model"}
# datasets/ is not a package: its files are imported as modules of a namespace package made below.
MODULES: dict[Kind, str] = {"algorithms": "bench.algorithms", "models": "bench.models", "datasets": "bench._datasets"}


def register(name: str) -> Callable[[Registered], Registered]:
    """Register the decorated class or function under ``name`` (lower case, underscores)."""

    def mark(thing: Registered) -> Registered:
        thing.registered_name = name  # type: ignore[attr-defined]
        return thing

    return mark


@dataclass(frozen=True)
class Entry:
    """A registered name, the docstring of its class or function, and where that is defined."""

    name: str
    docstring: str
    module: str
    file: Path
    definition: str

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.docstring.partition("\n")[0]


def folder(kind: Kind | Literal["experiments"]) -> Path:
    """Return the folder of silobench's own entries: inside the package, or beside it in a checkout."""
    if kind in ("algorithms", "models"):
        return PACKAGE / kind
    shipped = PACKAGE / f"_{kind}"
    return shipped if shipped.is_dir() else PACKAGE.parent / kind


@cache
def catalogue(kind: Kind) -> dict[str, Entry]:
    """Return all entries of ``kind`` by name, in alphabetical order.

    Raises :class:`SpecError` for a name registered twice, and for a file that is not Python.
    """
    own = {f"{MODULES[kind]}.{file.stem}": file for file in sorted(folder(kind).glob("*.py"))}
    entries: dict[str, Entry] = {}
    for module, file in (own | extensions.modules(kind)).items():
        for entry in _entries(module, file):
            if entry.name in entries:
                raise SpecError(
                    f"{file}: {entry.name!r} is already registered in {entries[entry.name].file}; rename one of them"
                )
            entries[entry.name] = entry
    return dict(sorted(entries.items()))


def find(kind: Kind, name: str) -> Entry:
    """Return the entry registered as ``name``; raise :class:`SpecError` with the nearest known name."""
    entries = catalogue(kind)
    if name not in entries:
        raise SpecError(f"unknown {SINGULAR[kind]} {name!r}: {nearest(name, entries)}")
    return entries[name]


def load(kind: Kind, name: str) -> Any:
    """Import and return the class or function registered as ``name``.

    Raises :class:`SpecError` for an unknown name and for a module that cannot be imported.
    """
    entry = find(kind, name)
    try:
        return getattr(importlib.import_module(entry.module), entry.definition)
    except SilobenchError:
        raise
    except Exception as error:  # an imported module may raise anything
        raise SpecError(
            f"{entry.file}: {SINGULAR[kind]} {name!r} cannot be imported ({type(error).__name__}: {error}); "
            f"install what the module needs, or correct it"
        ) from error


def _add_datasets_package() -> None:
    """Make the data sets' folder importable as ``bench._datasets``.

    A checkout has the folder beside the package, where a package called ``datasets`` would hide Hugging Face's.
    """
    name = MODULES["datasets"]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder("datasets"))]
    sys.modules.setdefault(name, module_from_spec(spec))


_add_datasets_package()


def _entries(module: str, file: Path) -> list[Entry]:
    try:
        statements = ast.parse(file.read_text(encoding="utf-8")).body
    except SyntaxError as error:
        raise SpecError(f"{file}, line {error.lineno}: not Python ({error.msg})") from None
    found = []
    for node in statements:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Name(id="register") | ast.Attribute(attr="register"), args=[ast.Constant(value=str(name))]
                ):
                    found.append(Entry(name, ast.get_docstring(node) or "", module, file, node.name))
    return found
