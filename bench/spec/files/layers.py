"""A study file with its base file and a profile: the layers that are merged, and which of them has a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bench.limits import MAX_NAME
from bench.spec.files import profiles, toml
from bench.spec.files.merge import id_of, merged
from bench.spec.files.profiles import PAPER
from bench.spec.sections.faults import StudyError, shown
from bench.types import SpecError

Where = Sequence[str | int]


@dataclass(frozen=True)
class Layer:
    """Keys from one file, or from one profile of it; ``name`` says which."""

    name: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Layers:
    """The merged ``content`` of a study, and the layers it was merged from, the uppermost first."""

    content: Mapping[str, Any]
    layers: tuple[Layer, ...]

    def locate(self, where: Where) -> tuple[str, Where]:
        """Return the name of the layer that has the key ``where`` of the content, and the key as written there.

        A key that no layer has is located where most of its parents are.
        """
        places = [(layer, written) for as_written in self._written(where) for layer, written in as_written]
        depth = {id(place): _depth(place[0].content, place[1]) for place in places}
        layer, written = max(places, key=lambda place: depth[id(place)] - len(place[1]))
        return layer.name, written

    def _written(self, where: Where) -> Iterator[list[tuple[Layer, Where]]]:
        """Yield, most specific first, the keys under which the layers may have ``where``."""
        if where[:1] == ("methods",) and len(where) > 1:
            yield [(layer, ("methods", key, *where[2:])) for layer in self.layers for key in _naming(layer, where[1])]
            yield [(layer, ("defaults", *where[2:])) for layer in self.layers if len(where) > 2]
            if where[2:3] in (("budget",), ("search",), ("data",)):
                yield [(layer, where[2:]) for layer in self.layers]
        elif where[:1] in (("tables",), ("figures",)) and len(where) > 1:
            entry = self.content[str(where[0])][where[1]]
            yield [
                (layer, (where[0], number, *where[2:]))
                for layer in self.layers
                for number, own in enumerate(_list(layer.content.get(str(where[0]))))
                if id_of(own) == id_of(entry)
            ]
        yield [(layer, where) for layer in self.layers]


def base_of(file: Path, content: Mapping[str, Any]) -> Path | None:
    """Return the base file that ``content`` of ``file`` extends, None if it extends none.

    Raises :class:`SpecError` for anything but the name of another file in the same folder.
    """
    name = content.get("extends")
    if name is None:
        return None
    if not isinstance(name, str) or len(name) > MAX_NAME or Path(name).name != name or name == file.name:
        raise SpecError(f"{file}: extends: expected the name of another file in the same folder, got {shown(name)}")
    base = file.parent / name
    if not base.is_file():
        raise SpecError(f"{file}: extends: there is no file {base}")
    return base


def layered(file: Path, content: Mapping[str, Any], profile: str) -> Layers:
    """Return ``content`` of ``file`` over its base file, with a ``profile`` over both.

    Raises :class:`SpecError` for a base file that extends another one, and for a profile that cannot be.
    """
    files = [Layer(str(file), content)]
    if (base := base_of(file, content)) is not None:
        below = toml.parse(base)
        if "extends" in below:
            raise SpecError(f"{base}: extends: {file.name} extends this file, which cannot extend another one")
        files.append(Layer(str(base), below))
    whole: dict[str, Any] = {}
    try:
        for layer in reversed(files):
            whole = merged(whole, _named(layer.content, whole))
    except StudyError as error:
        raise SpecError(f"{file}: {error}") from None
    whole.pop("extends", None)
    try:
        study = profiles.laid_over(whole, profile)
    except StudyError as error:
        holder = Layers(whole, tuple(files)).locate(error.where)[0]
        raise SpecError(f"{holder}: {error}") from None
    changed = []
    if profile != PAPER:
        own = [Layer(f"{each.name}, profile {profile}", _profile(each.content, profile)) for each in files]
        changed = [layer for layer in own if layer.content]
    return Layers(study, (*changed, *files))


def _named(content: Mapping[str, Any], below: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``content`` with methods for its patterns over methods of the base file, which is ``below``."""
    known, own = below.get("methods", {}), content.get("methods", {})
    if not (isinstance(known, dict) and isinstance(own, dict) and any(map(profiles.is_pattern, own))):
        return content
    named = {key: value for key, value in own.items() if not profiles.is_pattern(key)}
    return profiles.with_methods_named(("methods",), content, {**known, **named})


def _profile(content: Mapping[str, Any], profile: str) -> Mapping[str, Any]:
    return _table(_table(content.get("profiles")).get(profile))


def _naming(layer: Layer, method: str | int) -> list[str]:
    """Return the keys of a layer's methods that are, or match, ``method``, and ``method`` itself."""
    own = reversed(_table(layer.content.get("methods")))
    return [key for key in [*own, str(method)] if fnmatchcase(str(method), key)]


def _depth(content: Any, where: Where) -> int:
    """Return how many parts of ``where`` lead into ``content``."""
    for depth, part in enumerate(where):
        known = range(len(content)) if isinstance(content, list) else content if isinstance(content, dict) else ()
        if part not in known:
            return depth
        content = content[part]
    return len(where)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
