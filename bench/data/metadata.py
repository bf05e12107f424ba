"""Metadata of data sets, cached on disk so that planning and reports do not load arrays.

A cached entry is valid as long as nothing has changed that it depends on: the options, the code and cards of data sets,
the raw files found for them (by size and modification time), and the versions of the libraries that read them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby, load_dataset
from bench.data.files import manifest
from bench.data.files.locate import data_folders, tracked
from bench.files import cache_folder, write_whole
from bench.types import Client, Federation, Task, content_hash

LIBRARIES = ("numpy", "pandas", "pillow", "scikit-learn", "torch")


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
    request = {
        "name": name,
        "options": options,
        "folders": [str(each) for each in data_folders(root)],
        "working folder": str(Path.cwd()),
        "code": _code_hash(registry.catalogue("datasets")[name].file),
    }
    file = cache_folder() / "metadata" / f"{content_hash(request)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads(file.read_bytes())
        if entry.pop("checksum") == content_hash(entry) and entry["sources"] == _stamps(map(Path, entry["sources"])):
            return _from_json(entry["metadata"])
    with tracked() as places:
        found = Metadata.of(load_dataset(name, root, **options))
    places |= {place.absolute() for value in options.values() for place in _files_named(value, root)}
    entry = {"sources": _stamps(places), "metadata": asdict(found)}
    with suppress(OSError):  # the user may not be allowed to write to a shared cache
        write_whole(file, json.dumps({**entry, "checksum": content_hash(entry)}).encode())
    return found


def _from_json(entry: dict[str, Any]) -> Metadata:
    """The metadata of a cache entry; JSON has lists instead of tuples."""
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    plain["shapes"] = tuple(map(tuple, entry["shapes"]))
    return Metadata(**plain)


@cache
def _code_hash(adapter: Path) -> str:
    """SHA-256 of the files and library versions that determine how raw files become a federation."""
    package = Path(__file__).parent
    own = registry.folder("datasets")
    adapters = sorted(own.iterdir()) if adapter.parent == own else [adapter, adapter.with_suffix(".md")]
    files = [*sorted(package.rglob("*.py")), package.parent / "types.py", *adapters]
    digest = hashlib.sha256(json.dumps([version(library) for library in LIBRARIES]).encode())
    for file in files:
        if file.suffix in (".py", ".md") and file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _stamps(places: Iterable[Path]) -> dict[str, list[list[Any]]]:
    """Size and modification time of each file, and of every file in a folder."""

    def stamps(place: Path) -> list[list[Any]]:
        files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
        return [[str(file.relative_to(place)), *manifest.stamp(file)] for file in files]

    return {str(place): stamps(place) for place in sorted(places)}


def _files_named(value: Any, root: Path | None) -> list[Path]:
    """The file that an option's value names, if there is one."""
    place = (root or Path()) / Path(value).expanduser() if isinstance(value, str) and value else Path()
    return [place] if place.is_file() else []
