"""What of a data set lies on this machine, and whether it is intact."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock

from bench import registry
from bench.data import flamby
from bench.data.files import cache, cards, download, manifest
from bench.files import cache_folder


@dataclass(frozen=True)
class Finding:
    """One file and how it is; ``detail`` says what was compared, or what is wrong and how to mend it."""

    file: str
    state: Literal["intact", "damaged", "absent", "unpinned"]
    detail: str


def examine(name: str, root: Path | None = None) -> Iterator[Finding]:
    """Every file that data set ``name`` is read from, and everything in the cache that was made of them.

    All that is at hand is read and compared with its hash. Opens no connection.
    """
    card = cards.read(name)
    prepare = f"run `silobench data prepare {name}`"
    for asset in _assets(name):
        own, cached = download.find(asset.path, root), cache_folder() / asset.path
        place = own or cached
        if not place.is_file():
            yield Finding(asset.path, "absent", asset.identity)
        elif deviation := download.deviates(asset, place):
            yield Finding(str(place), "damaged", f"{deviation}; {'delete it and ' if own else ''}{prepare}")
        else:
            yield Finding(str(place), "intact", asset.identity)
    for needed in card.files:
        if needed.digest is None:
            lying = needed.place(root)
            names = " or ".join(needed.names)
            yield Finding(str(lying or names), "unpinned" if lying else "absent", "no hash is published")
    for folder in _made(name):
        for file, deviation in manifest.deviations(folder, thorough=True).items():
            detail = f"{deviation}; {prepare}" if deviation else "as it was made"
            yield Finding(str(folder / file), "damaged" if deviation else "intact", detail)


def discard_damaged(name: str) -> list[Path]:
    """Delete what was made of the files of data set ``name`` and has changed since; returns the folders deleted."""
    damaged = [folder for folder in _made(name) if any(manifest.deviations(folder, thorough=True).values())]
    for folder in damaged:
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            shutil.rmtree(folder)
    return damaged


def _assets(name: str) -> list[download.Asset]:
    """The published files that the data set's own source pins; of a task of FLamby none."""
    if name.startswith(flamby.PREFIX):
        return []
    module = sys.modules[registry.load("datasets", name).__module__]
    return list(getattr(module, "ASSETS", {}).values())


def _made(name: str) -> list[Path]:
    """The sealed folders in the cache: unpacked archives and prepared arrays."""
    unpacked = [download.unpacked_folder(asset) for asset in _assets(name)]
    return [*(folder for folder in unpacked if folder.is_dir()), *cache.folders(name)]
