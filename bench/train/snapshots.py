"""The state of running run batches on disk, so that a long run goes on where it was cut.

A snapshot is a tree of tensors and a few facts, written whole or not at all, and never believed without its checksum.
Local steps, draws and sums after it are those of an uncut run, so the outcome is the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from bench.files import write_whole
from bench.types import DataError


@dataclass(frozen=True)
class Keeping:
    """Where snapshots are kept, and when: after rounds that ``every_rounds`` divides, and after ``every_seconds``."""

    folder: Path
    every_rounds: int | None = None
    every_seconds: float = 300.0


@dataclass
class Snapshot:
    """A file that holds the state of what ``identity`` names."""

    file: Path
    identity: str
    every_rounds: int | None = None
    every_seconds: float = math.inf

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def due(self, round_: int) -> bool:
        """Whether to write the state after so many rounds."""
        late = time.monotonic() - self._last >= self.every_seconds
        return late or (self.every_rounds is not None and round_ % self.every_rounds == 0)

    def write(self, tree: Mapping[Any, Any], facts: Mapping[str, Any]) -> None:
        """Keep the tree (nested dictionaries of tensors) and the facts (plain containers)."""
        leaves = dict(_leaves(tree, "tree"))
        # A branch without tensors (the state of an optimiser that has none) would be lost with them.
        bare = [name for name, leaf in leaves.items() if leaf is None]
        text = json.dumps({"identity": self.identity, "bare": bare, "facts": facts}, allow_nan=False)
        tensors = {name: leaf.contiguous().clone() for name, leaf in leaves.items() if leaf is not None}
        content = save({**tensors, "facts": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)})
        self._last = time.monotonic()
        write_whole(self.file, hashlib.sha256(content).digest() + content)

    def read(self) -> tuple[dict[Any, Any], dict[str, Any]] | None:
        """The tree and the facts kept last; None where nothing is, or what is there belongs to something else.

        Raises :class:`DataError` for a damaged file.
        """
        if not self.file.exists():
            return None
        found = self.file.read_bytes()
        digest, content = found[:32], found[32:]
        if hashlib.sha256(content).digest() != digest:
            expected = hashlib.sha256(content).hexdigest()
            raise DataError(f"{self.file}: damaged, its sha256 is {expected}; delete it, the runs then start afresh")
        tensors = load(content)
        head = json.loads(bytes(tensors.pop("facts").tolist()))
        if head["identity"] != self.identity:
            return None
        tree: dict[Any, Any] = {}
        for name, leaf in {**tensors, **{name: {} for name in head["bare"]}}.items():
            *path, last = map(_key, name.split("/")[1:])
            branch = tree
            for key in path:
                branch = branch.setdefault(key, {})
            branch[last] = leaf
        return tree, head["facts"]

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Tensor | None]]:
    """Tensors by the path to them; a branch without any is None."""
    if isinstance(tree, Tensor) or not tree:
        yield name, tree if isinstance(tree, Tensor) else None
        return
    for key, branch in tree.items():
        yield from _leaves(branch, f"{name}/{','.join(map(str, key)) + ',' if isinstance(key, tuple) else key}")


def _key(text: str) -> Any:
    """A grid's index is written "0,1,2,", any other key as it is."""
    return tuple(map(int, text[:-1].split(","))) if text.endswith(",") else text
