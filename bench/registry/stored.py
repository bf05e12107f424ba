"""Cache file of what the entries of a kind declare, with the hashes of the source files that decide it.

Any difference - an edited file, another Python or silobench, a damaged file - makes the cache unread, and the entries
are imported again. A cache folder that cannot be written is no error.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import __version__
from bench.files import cache_folder, write_whole
from bench.registry.names import Entry, Kind
from bench.types import content_hash

FORMAT = 1
_STARTED = time.time()


def read(kind: Kind, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return what the entries declare, by name, or None if it is not kept or out of date."""
    try:
        content = json.loads(_file(kind, entries).read_bytes())
        if content["digest"] != content_hash(content["kept"]):
            return None
        if any(_hash(Path(file)) != digest for file, digest in content["kept"]["sources"].items()):
            return None
        return dict(content["kept"]["declarations"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(kind: Kind, entries: Sequence[Entry], definitions: Sequence[Any], declarations: Mapping[str, Any]) -> None:
    """Keep ``declarations``.

    A source file changed since this process began may have been imported before the change: nothing is kept then.
    """
    with suppress(OSError):
        files = sorted(sources(definitions))
        if any(file.stat().st_mtime >= _STARTED for file in files):
            return
        kept = {"sources": {str(file): _hash(file) for file in files}, "declarations": declarations}
        content = {"digest": content_hash(kept), "kept": kept}
        write_whole(_file(kind, entries), json.dumps(content, allow_nan=False).encode())


def sources(definitions: Sequence[Any]) -> set[Path]:
    """Return the source files that decide what ``definitions`` declare.

    They are those of their modules, their base classes' modules, and of what these import from their own packages.
    """
    classes = {each for definition in definitions for each in getattr(definition, "__mro__", (definition,))}
    modules = sorted(each.__module__ for each in classes)
    waiting = [name for name in modules if name.partition(".")[0] not in {*sys.stdlib_module_names, "torch"}]
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is not None and file and file.endswith(".py") and name not in found:
            found[name] = Path(file)
            waiting += [each for each in _imported(module) if _related(module, each)]
    return set(found.values())


def _imported(module: ModuleType) -> Iterator[str]:
    """Return the names of all modules that a module imports, and names that may be of modules."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=parent, names=names, level=level):
                name = importlib.util.resolve_name("." * level + (parent or ""), module.__package__ or None)
                yield name
                yield from (f"{name}.{each.name}" for each in names)


def _related(module: ModuleType, imported: str) -> bool:
    """Return whether two modules belong to one package, or are files in one folder."""
    other = getattr(sys.modules.get(imported), "__file__", None)
    same_package = module.__name__.partition(".")[0] == imported.partition(".")[0]
    return same_package or (other is not None and Path(other).parent == Path(str(module.__file__)).parent)


def _file(kind: Kind, entries: Sequence[Entry]) -> Path:
    known = [[entry.name, entry.module, str(entry.file)] for entry in entries]
    key = {"format": FORMAT, "python": platform.python_version(), "silobench": __version__, "entries": known}
    return cache_folder() / "registry" / f"{kind}-{content_hash(key)}.json"


@cache
def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
