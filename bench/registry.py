"""What can be named in a spec: found by reading the source files, imported only when used.

A file registers what it offers with ``@register("name")`` on a top-level class or function. Listing parses the
files without running them, so that ``silobench list`` needs neither torch nor the optional extras.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from bench.types import SpecError, nearest

Kind = Literal["algorithms", "datasets", "models"]
Registered = TypeVar("Registered")
PACKAGE = Path(__file__).parent


def register(name: str) -> Callable[[Registered], Registered]:
    """Offer the decorated class or function under ``name`` (lower case, underscores)."""

    def mark(thing: Registered) -> Registered:
        thing.registered_name = name  # type: ignore[attr-defined]
        return thing

    return mark


@dataclass(frozen=True)
class Entry:
    """One registered name: its one-line summary, the file and the definition that carries it."""

    name: str
    summary: str
    file: Path
    definition: str


def folder(kind: Kind | Literal["experiments"]) -> Path:
    """Where entries of ``kind`` live: inside the package, or beside it in a checkout."""
    if kind in ("algorithms", "models"):
        return PACKAGE / kind
    shipped = PACKAGE / f"_{kind}"
    return shipped if shipped.is_dir() else PACKAGE.parent / kind


@cache
def catalogue(kind: Kind) -> dict[str, Entry]:
    """All entries of ``kind`` by name, in alphabetical order."""
    entries = (entry for file in sorted(folder(kind).glob("*.py")) for entry in _entries(file))
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _entries(file: Path) -> list[Entry]:
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Name(id="register"), args=[ast.Constant(value=str(name))]):
                    summary = (ast.get_docstring(node) or "").partition("\n")[0]
                    found.append(Entry(name, summary, file, node.name))
    return found


def options(kind: Kind, name: str) -> list[str]:
    """The options that a spec may give to what is registered as ``name``, read from its source.

    Of a function or class its parameters after the data folder, or after inputs and outputs; of an algorithm the
    fields that are not hyper-parameters.
    """
    if kind == "algorithms":
        return _fields(name, searchable=False)
    leading = 1 if kind == "datasets" else 2
    node = _definition(kind, name)
    if isinstance(node, ast.ClassDef):
        leading += 1  # self
        node = next(part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in arguments][leading:]


def hyperparameters(algorithm: str) -> list[str]:
    """The names of an algorithm's own hyper-parameters, inherited ones first, read from its source."""
    return _fields(algorithm, searchable=True)


@cache
def _definition(kind: Kind, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The syntax tree of what is registered as ``name``."""
    entry = catalogue(kind)[name]
    body = ast.parse(entry.file.read_text(encoding="utf-8")).body
    definitions = (node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next(node for node in definitions if node.name == entry.definition)


def _fields(algorithm: str, *, searchable: bool) -> list[str]:
    """The fields of an algorithm's dataclass: hyper-parameters if ``searchable``, else options."""
    node = _definition("algorithms", algorithm)
    assert isinstance(node, ast.ClassDef)
    parents = {base.id for base in node.bases if isinstance(base, ast.Name)}
    registered = [entry.name for entry in catalogue("algorithms").values() if entry.definition in parents]
    inherited = [name for parent in registered for name in _fields(parent, searchable=searchable)]
    own = [
        field.target.id
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None
        if "ClassVar" not in ast.unparse(field.annotation)
        if (ast.unparse(field.value).partition("(")[0] == "searchable") is searchable
    ]
    return list(dict.fromkeys(inherited + own))


def load(kind: Kind, name: str) -> Any:
    """The class or function registered as ``name``; raises :class:`SpecError` naming the nearest known one."""
    entries = catalogue(kind)
    if name not in entries:
        raise SpecError(f"unknown {kind[:-1]} {name!r}: {nearest(name, entries)}")
    entry = entries[name]
    return getattr(_module(kind, entry.file), entry.definition)


def _module(kind: Kind, file: Path) -> ModuleType:
    if kind != "datasets":
        return importlib.import_module(f"bench.{kind}.{file.stem}")
    # By path: a package called `datasets` would shadow Hugging Face's for whoever runs from the checkout.
    name = f"bench._datasets.{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
