"""Cache file of what the entries of a kind declare, with the hashes of the source files that decide it.

Any difference - an edited file, another Python or silobench, a damaged file - makes the cache unread, and the entries
are imported again. A cache folder that cannot be written is no error.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import __version__
from bench.files import recall, remember
from bench.registry.names import Entry, Kind

# Nanoseconds since 1970, and of a clock that cannot be set, when this process began.
_STARTED, _STARTED_STEADY = time.time_ns(), time.monotonic_ns()
_CLOCK_ERROR = 1_000_000_000  # nanoseconds by which the two may drift apart


def read(kind: Kind, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return what the entries declare, by name, or None if it is not kept or out of date."""
    kept = recall("registry", _question(kind, entries))
    return kept["declarations"] if kept and unchanged(kept["sources"]) else None


def write(kind: Kind, entries: Sequence[Entry], definitions: Sequence[Any], declarations: Mapping[str, Any]) -> None:
    """Keep ``declarations``, unless a source file changed since this process began."""
    if found := hashes(definitions):
        remember("registry", _question(kind, entries), {"sources": found, "declarations": declarations})


def hashes(definitions: Sequence[Any], others: Iterable[Path] = ()) -> dict[str, str] | None:
    """Return the SHA-256 by path of the :func:`sources` of ``definitions`` and of ``others``.

    Return None if one of them changed since this process began: it may have been imported before the change.
    """
    try:
        files = sorted({*sources(definitions), *others})
        return {str(file): _hash(file) for file in files} if all(map(_is_as_at_start, files)) else None
    except (OSError, SyntaxError):  # deleted, or being edited
        return None


def unchanged(found: Mapping[str, str]) -> bool:
    """Return whether source files still have the SHA-256s that :func:`hashes` returned."""
    return all(_hash(Path(file)) == known for file, known in found.items())


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


def _question(kind: Kind, entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "kind": kind,
        "entries": [[entry.name, entry.module, str(entry.file)] for entry in entries],
        "versions": [platform.python_version(), __version__],
        "code": [_hash(file) for file in sorted(Path(__file__).parent.glob("*.py"))],
    }


def _is_as_at_start(file: Path) -> bool:
    """Return whether a file is known to be as it was when this process began; it is not if the clock was set back."""
    state, running = file.stat(), time.monotonic_ns() - _STARTED_STEADY
    set_back = time.time_ns() - _STARTED < running - _CLOCK_ERROR
    return not set_back and max(state.st_mtime_ns, state.st_ctime_ns) < _STARTED


def _hash(file: Path) -> str:
    """Return the SHA-256 of a file's content; an empty text if it cannot be read."""
    with suppress(OSError):
        state = file.stat()
        return _content_hash(file, state.st_mtime_ns, state.st_ctime_ns)
    return ""


@lru_cache(None)
def _content_hash(file: Path, changed: int, altered: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
