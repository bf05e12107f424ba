"""What a study must know of its data before anything runs, remembered so that a finished study loads none.

A fact is believed for as long as nothing that it was made from has changed: the source files of the adapters, the raw
files found for them (by size and time of change), the options, and the versions of the libraries that read and draw.
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
from bench.data.files import download, manifest
from bench.files import cache_folder, write_whole
from bench.types import Federation, content_hash

LIBRARIES = ("numpy", "pandas", "pillow", "scikit-learn", "torch")


@dataclass(frozen=True)
class Facts:
    """A federation without its arrays.

    ``test_sizes`` are by client, 0 for one without test samples; ``sample`` counts the numbers of the largest input.
    """

    options: Mapping[str, Any]
    fingerprint: str
    clients: tuple[str, ...]
    test_sizes: tuple[int, ...]
    metrics: tuple[str, ...]
    synthetic: bool
    sample: int

    @classmethod
    def of(cls, federation: Federation) -> Facts:
        return cls(
            options=dict(federation.options),
            fingerprint=federation.fingerprint,
            clients=tuple(client.name for client in federation.clients),
            test_sizes=federation.test_sizes,
            metrics=federation.metrics,
            synthetic=federation.synthetic,
            sample=max(client.train.x[0].numel() for client in federation.clients),
        )


def facts(name: str, root: Path | None, options: Mapping[str, Any]) -> Facts:
    """The facts of the registered data set ``name`` with these options, looked up or, the first time, by loading it."""
    if name.startswith(flamby.PREFIX):
        return Facts.of(load_dataset(name, root, **options))
    asked = {"name": name, "options": options, "folders": [str(each) for each in download.data_folders(root)],
             "here": str(Path.cwd()), "code": _code(registry.catalogue("datasets")[name].file)}  # fmt: skip
    memory = cache_folder() / "facts" / f"{content_hash(asked)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(memory.read_bytes())
        if kept.pop("sum") == content_hash(kept) and kept["sources"] == _stamps(map(Path, kept["sources"])):
            return _restored(kept["facts"])
    with download.noted() as places:
        found = Facts.of(load_dataset(name, root, **options))
    places |= {place.absolute() for value in options.values() for place in _files_named(value, root)}
    made = {"sources": _stamps(places), "facts": asdict(found)}
    with suppress(OSError):  # a cache that only others may write to
        write_whole(memory, json.dumps({**made, "sum": content_hash(made)}).encode())
    return found


def _restored(kept: dict[str, Any]) -> Facts:
    """Facts as they were before JSON made lists of tuples."""
    return Facts(
        options=kept["options"],
        fingerprint=kept["fingerprint"],
        clients=tuple(kept["clients"]),
        test_sizes=tuple(kept["test_sizes"]),
        metrics=tuple(kept["metrics"]),
        synthetic=kept["synthetic"],
        sample=kept["sample"],
    )


@cache
def _code(adapter: Path) -> str:
    """What decides how raw files become a federation."""
    package = Path(__file__).parent
    files = [*sorted(package.rglob("*.py")), package.parent / "types.py", adapter]
    digest = hashlib.sha256(json.dumps([version(library) for library in LIBRARIES]).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stamps(places: Iterable[Path]) -> dict[str, list[list[Any]]]:
    """Size and time of change of each file, or of every file in a folder."""

    def stamps(place: Path) -> list[list[Any]]:
        files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
        return [[str(file.relative_to(place)), *manifest.stamp(file)] for file in files]

    return {str(place): stamps(place) for place in sorted(places)}


def _files_named(value: Any, root: Path | None) -> list[Path]:
    """The file that an option's value names, if it names one."""
    place = (root or Path()) / Path(value).expanduser() if isinstance(value, str) and value else Path()
    return [place] if place.is_file() else []
