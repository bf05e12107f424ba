"""What can be named in a spec: found by reading the source files, imported only when used.

A file registers what it offers with ``@register("name")`` on a top-level class or function. Listing parses the
files without running them, so that ``silobench list`` needs neither torch nor the optional extras. Besides ours, the
files are those that installed packages name in entry points (:mod:`bench.extensions`).
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
from bench.types import SpecError, nearest

Kind = Literal["algorithms", "datasets", "models"]
Registered = TypeVar("Registered")
PACKAGE = Path(__file__).parent
# datasets/ is not a package: its files are imported as modules of a namespace package made below.
MODULES: dict[Kind, str] = {"algorithms": "bench.algorithms", "models": "bench.models", "datasets": "bench._datasets"}


def register(name: str) -> Callable[[Registered], Registered]:
    """Offer the decorated class or function under ``name`` (lower case, underscores)."""

    def mark(thing: Registered) -> Registered:
        thing.registered_name = name  # type: ignore[attr-defined]
        return thing

    return mark


@dataclass(frozen=True)
class Entry:
    """One registered name: its one-line summary, the module, its file, and the definition in it that carries it."""

    name: str
    summary: str
    module: str
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
    """All entries of ``kind`` by name, in alphabetical order; raises :class:`SpecError` for a name given twice."""
    ours = {f"{MODULES[kind]}.{file.stem}": file for file in sorted(folder(kind).glob("*.py"))}
    entries: dict[str, Entry] = {}
    for module, file in (ours | extensions.modules(kind)).items():
        for entry in _entries(module, file):
            if entry.name in entries:
                raise SpecError(
                    f"{file}: {entry.name!r} stands in {entries[entry.name].file} already; rename one of them"
                )
            entries[entry.name] = entry
    return dict(sorted(entries.items()))


def _entries(module: str, file: Path) -> list[Entry]:
    found = []
    for node in _statements(file):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Name(id="register"), args=[ast.Constant(value=str(name))]):
                    summary = (ast.get_docstring(node) or "").partition("\n")[0]
                    found.append(Entry(name, summary, module, file, node.name))
    return found


def options(kind: Kind, name: str) -> list[str]:
    """The options that a spec may give to what is registered as ``name``, read from its source.

    Of a function or class its parameters after the data folder, or after inputs and outputs; of an algorithm the
    fields that are not hyper-parameters.
    """
    return list(_fields(name, searchable=False) if kind == "algorithms" else _parameters(kind, name))


def defaults(kind: Kind, name: str) -> dict[str, Any]:
    """The values that options of what is registered as ``name`` have unless a spec gives others, read from its source.

    Raises :class:`SpecError` for a default that is neither a literal nor a constant of its file.
    """
    if kind == "algorithms":
        return _fields(name, searchable=False)
    file, parameters = _entry(kind, name).file, _parameters(kind, name)
    return {option: _literal(file, option, value) for option, value in parameters.items() if value is not None}


def hyperparameters(algorithm: str) -> list[str]:
    """The names of an algorithm's own hyper-parameters, inherited ones first, read from its source."""
    return list(hyperparameter_defaults(algorithm))


def hyperparameter_defaults(algorithm: str) -> dict[str, Any]:
    """The values that an algorithm's own hyper-parameters have unless a spec gives others, read from its source."""
    return _fields(algorithm, searchable=True)


def search_ranges(algorithm: str) -> dict[str, tuple[float, float] | None]:
    """Between which values each of an algorithm's own hyper-parameters is searched, None where it says nothing."""
    fields = _declared_fields(_entry("algorithms", algorithm)).items()
    return {
        name: None if field.log is None else _literal(field.file, name, field.log)
        for name, field in fields
        if field.searchable
    }


def docstring(kind: Kind, name: str) -> str:
    """What is said of what is registered as ``name``, indentation removed; empty if nothing is."""
    return ast.get_docstring(_definition(kind, name)) or ""


def declared(algorithm: str) -> dict[str, Any]:
    """What the class of an algorithm says of it (``parallel``, ``optimizers`` ...), base classes' answers included."""
    entry = _entry("algorithms", algorithm)
    return _class_variables(entry.file, entry.definition)


@cache
def _class_variables(file: Path, definition: str) -> dict[str, Any]:
    node = next(
        (each for each in _statements(file) if isinstance(each, ast.ClassDef) and each.name == definition), None
    )
    if node is None:  # the parent's home is another file
        files = (other for other in sorted(folder("algorithms").glob("*.py")) if other != file)
        homes = (
            other for other in files if any(getattr(each, "name", "") == definition for each in _statements(other))
        )
        home = next(homes, None)
        return {} if home is None else _class_variables(home, definition)
    found: dict[str, Any] = {}
    for parent in _parents(node):
        found |= _class_variables(file, parent)
    for field in node.body:
        match field:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if "ClassVar" in ast.unparse(field.annotation):
                    found[name] = _literal(file, name, value)
    return found


def _entry(kind: Kind, name: str) -> Entry:
    entries = catalogue(kind)
    if name not in entries:
        raise SpecError(f"unknown {kind[:-1]} {name!r}: {nearest(name, entries)}")
    return entries[name]


def _definition(kind: Kind, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The syntax tree of what is registered as ``name``."""
    entry = _entry(kind, name)
    definitions = (node for node in _statements(entry.file) if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next(node for node in definitions if node.name == entry.definition)


@cache
def _statements(file: Path) -> list[ast.stmt]:
    try:
        return ast.parse(file.read_text(encoding="utf-8")).body
    except SyntaxError as error:
        raise SpecError(f"{file}, line {error.lineno}: not Python ({error.msg})") from None


def _parameters(kind: Kind, name: str) -> dict[str, ast.expr | None]:
    """The options of a function or class, each with the expression of its default if it has one."""
    leading = 1 if kind == "datasets" else 2
    node = _definition(kind, name)
    if isinstance(node, ast.ClassDef):
        leading += 1  # self
        node = next(part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    positional = [*node.args.posonlyargs, *node.args.args]
    names = [argument.arg for argument in [*positional, *node.args.kwonlyargs]]
    without = len(positional) - len(node.args.defaults)
    values = [*[None] * without, *node.args.defaults, *node.args.kw_defaults]
    return dict(list(zip(names, values, strict=True))[leading:])


@dataclass(frozen=True)
class _Field:
    """A field of an algorithm as its source declares it; ``log`` is the range that a hyper-parameter is searched in."""

    file: Path
    default: ast.expr
    searchable: bool
    log: ast.expr | None


@cache
def _declared_fields(algorithm: Entry) -> dict[str, _Field]:
    """An algorithm's fields by name, inherited ones first."""
    node = _definition("algorithms", algorithm.name)
    assert isinstance(node, ast.ClassDef)
    found: dict[str, _Field] = {}
    for entry in catalogue("algorithms").values():
        if entry.definition in _parents(node):
            found |= _declared_fields(entry)
    for statement in node.body:
        match statement:
            case ast.AnnAssign(annotation=annotation) if "ClassVar" in ast.unparse(annotation):
                continue
            case ast.AnnAssign(
                target=ast.Name(id=name),
                value=ast.Call(func=ast.Name(id="searchable"), args=[value, *_], keywords=more),
            ):
                log = next((keyword.value for keyword in more if keyword.arg == "log"), None)
                found[name] = _Field(algorithm.file, value, searchable=True, log=log)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = _Field(algorithm.file, value, searchable=False, log=None)
    return found


def _parents(node: ast.ClassDef) -> list[str]:
    """The names of the classes that a class is derived from, without their modules'."""
    return [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _fields(algorithm: str, *, searchable: bool) -> dict[str, Any]:
    """Names and defaults of an algorithm's fields: hyper-parameters if ``searchable``, else options."""
    fields = _declared_fields(_entry("algorithms", algorithm)).items()
    return {name: _literal(field.file, name, field.default) for name, field in fields if field.searchable is searchable}


def _literal(file: Path, option: str, value: ast.expr) -> Any:
    """What the expression of a default says, looked up where it is a constant of its file."""
    found = value
    for node in _statements(file):
        match node, value:
            case (ast.Assign(targets=[ast.Name(id=constant)], value=said), ast.Name(id=name)) if constant == name:
                found = said
    try:
        return ast.literal_eval(found)
    except ValueError:
        what = f"{option} = {ast.unparse(value)}"
        raise SpecError(f"{file}: {what}: the default must be a literal or a constant of this file") from None


def load(kind: Kind, name: str) -> Any:
    """The class or function registered as ``name``; raises :class:`SpecError` naming the nearest known one."""
    entry = _entry(kind, name)
    return getattr(importlib.import_module(entry.module), entry.definition)


def _add_datasets_package() -> None:
    """Make the data sets' folder importable as ``bench._datasets``.

    A checkout has the folder beside the package, where a package called ``datasets`` would hide Hugging Face's.
    """
    name = MODULES["datasets"]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder("datasets"))]
    sys.modules.setdefault(name, module_from_spec(spec))


_add_datasets_package()
