"""Metadata of data sets, cached on disk so that planning and reports do not load arrays.

A cached entry is valid as long as nothing has changed that it depends on: the options, the folders that are searched,
the source files and cards of the data set, the contents of its raw files, and the versions of the libraries that read
them. A raw file that appears where an earlier search found none is such a change.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby, load_dataset
from bench.data.files import hashes
from bench.data.files.hashes import combined, stamp
from bench.data.files.libraries import ALL, versions
from bench.data.files.locate import data_folders, tracked
from bench.data.files.manifest import MANIFEST
from bench.files import cache_folder, recall, remember
from bench.registry import stored
from bench.types import Client, Federation, Task


@dataclass(frozen=True)
class Metadata:
    """A federation without its arrays.

    ``clients``, ``test_sizes``, ``shapes`` and ``classes`` have one entry per client: its name, its number of test
    samples (0 if it is not scored), the shape of an input as a model sees it, and its number of classes. ``sample`` is
    the number of values in the largest stored input. ``embeddings`` is (tokens, width) of the data set's word vectors.
    Metadata from records have neither task nor shapes nor classes.
    """

    options: Mapping[str, Any]
    fingerprint: str
    clients: tuple[str, ...]
    test_sizes: tuple[int, ...]
    metrics: tuple[str, ...]
    synthetic: bool
    sample: int
    task: Task | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    classes: tuple[int, ...] = ()
    embeddings: tuple[int, int] | None = None

    @classmethod
    def of(cls, federation: Federation) -> Metadata:
        """Return the metadata of a loaded federation."""
        vectors = federation.embeddings
        return cls(
            options=dict(federation.options),
            fingerprint=federation.fingerprint,
            task=federation.task,
            clients=tuple(client.name for client in federation.clients),
            classes=tuple(client.classes or federation.classes for client in federation.clients),
            shapes=tuple(_shape(federation, client) for client in federation.clients),
            test_sizes=federation.test_sizes,
            metrics=federation.metrics,
            synthetic=federation.synthetic,
            sample=max(client.train.x[0].numel() for client in federation.clients),
            embeddings=None if vectors is None else (len(vectors), vectors.shape[1]),
        )


def _shape(federation: Federation, client: Client) -> tuple[int, ...]:
    x = client.train.x[:2]
    return tuple((x if federation.prepare is None else federation.prepare(x)).shape[1:])


def dataset_metadata(name: str, root: Path | None, options: Mapping[str, Any]) -> Metadata:
    """Return the metadata of the registered data set ``name`` with these options, from the cache or by loading it.

    Raises the errors of :func:`bench.data.load_dataset`.
    """
    if name.startswith(flamby.PREFIX):
        return Metadata.of(load_dataset(name, root, **options))
    begun = time.time_ns()
    question = _question(name, root, options)
    kept = recall("metadata", question)
    if kept and _current(kept):
        return _from_json(kept["metadata"])
    with tracked() as places:
        found = Metadata.of(load_dataset(name, root, **options))
    places |= {place for value in options.values() for place in _files_named(value, root)}
    adapter = registry.find("datasets", name).file
    code = stored.hashes([registry.load("datasets", name), load_dataset, Metadata], adapter.parent.glob("*.md"))
    with suppress(OSError):  # a file that was deleted meanwhile
        data = _contents(places)
        # A file changed since the call began may have been read before the change.
        if code and hashes.settled((stamp(file) for place in places for file in _files(place).values()), begun):
            remember("metadata", question, {"code": code, "data": data, "metadata": asdict(found)})
    return found


def _question(name: str, root: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    entry = registry.find("datasets", name)
    named = [place for value in options.values() for place in _files_named(value, root)]
    return {
        "data set": [name, entry.module, str(entry.file)],
        "options": options,
        "places": [str(each.absolute()) for each in (*data_folders(root), cache_folder(), *named)],
        "working folder": str(Path.cwd()),
        "versions": [platform.python_version(), versions(ALL)],
    }


def _current(kept: Mapping[str, Any]) -> bool:
    """Return whether the source files and raw files are those from which a cached entry was made."""
    with suppress(OSError):
        return stored.unchanged(kept["code"]) and kept["data"] == _contents(map(Path, kept["data"]["names"]))
    return False


def _from_json(entry: dict[str, Any]) -> Metadata:
    """The metadata of a cache entry; JSON has lists instead of tuples."""
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    plain["shapes"] = tuple(map(tuple, entry["shapes"]))
    return Metadata(**plain)


def _contents(places: Iterable[Path]) -> dict[str, Any]:
    """The names of the files at each place, and the SHA-256 over the contents of all of them."""
    found = {str(place): _files(place) for place in sorted(places)}
    names = {place: list(files) for place, files in found.items()}
    return {"names": names, "sha256": combined([file for files in found.values() for file in files.values()])}


def _files(place: Path) -> dict[str, Path]:
    """The file at a place, or the files in the folder, by name; manifests in the cache are renewed and left out."""
    if place.is_file():
        return {place.name: place}
    found = sorted(file for file in place.rglob("*") if file.is_file() and file.name != MANIFEST)
    return {str(file.relative_to(place)): file for file in found}


def _files_named(value: Any, root: Path | None) -> list[Path]:
    """The absolute path of the file that an option's value names, if there is one."""
    if isinstance(value, str):
        with suppress(OSError, RuntimeError, ValueError):  # a text that cannot be a path
            place = (root or Path()) / Path(value).expanduser()
            return [place.absolute()] if place.is_file() else []
    return []
