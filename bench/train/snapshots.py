"""Snapshots: the state of a run batch on disk, from which training resumes after an interruption.

A snapshot holds a tree of tensors and metadata, with a checksum. It is written atomically. A resumed run equals an
uninterrupted one bit by bit.
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
class SnapshotPolicy:
    """The folder of snapshots, and when to write one: after every n-th round, or after a number of seconds."""

    folder: Path
    every_rounds: int | None = None
    every_seconds: float = 300.0


@dataclass
class Snapshot:
    """A file with the state of the run batch that ``identity`` names."""

    file: Path
    identity: str
    every_rounds: int | None = None
    every_seconds: float = math.inf

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def due(self, round_: int) -> bool:
        """Return whether to write the state after ``round_`` rounds."""
        late = time.monotonic() - self._last >= self.every_seconds
        return late or (self.every_rounds is not None and round_ % self.every_rounds == 0)

    def write(self, tree: Mapping[Any, Any], metadata: Mapping[str, Any]) -> None:
        """Write the tree (nested dictionaries of tensors) and the metadata (plain containers)."""
        leaves = dict(_leaves(tree, "tree"))
        # A branch without tensors (the state of an optimiser without momentum) must be listed by name.
        bare = [name for name, leaf in leaves.items() if leaf is None]
        text = json.dumps({"identity": self.identity, "bare": bare, "metadata": metadata}, allow_nan=False)
        tensors = {name: leaf.contiguous().clone() for name, leaf in leaves.items() if leaf is not None}
        content = save({**tensors, "metadata": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)})
        self._last = time.monotonic()
        write_whole(self.file, hashlib.sha256(content).digest() + content)

    def read(self) -> tuple[dict[Any, Any], dict[str, Any]] | None:
        """Return the tree and the metadata; None if there is no file, or if it belongs to another run batch.

        Raises :class:`DataError` for a damaged file.
        """
        if not self.file.exists():
            return None
        found = self.file.read_bytes()
        digest, content = found[:32], found[32:]
        if hashlib.sha256(content).digest() != digest:
            expected = hashlib.sha256(content).hexdigest()
            raise DataError(f"{self.file}: damaged, its sha256 is {expected}; delete it, and the runs start again")
        tensors = load(content)
        head = json.loads(bytes(tensors.pop("metadata").tolist()))
        if head["identity"] != self.identity:
            return None
        tree: dict[Any, Any] = {}
        for name, leaf in {**tensors, **{name: {} for name in head["bare"]}}.items():
            *path, last = map(_key, name.split("/")[1:])
            branch = tree
            for key in path:
                branch = branch.setdefault(key, {})
            branch[last] = leaf
        return tree, head["metadata"]

    def forget(self) -> None:
        """Delete the file."""
        self.file.unlink(missing_ok=True)


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Tensor | None]]:
    """Yield tensors by their path in the tree; None for a branch without tensors."""
    if isinstance(tree, Tensor) or not tree:
        yield name, tree if isinstance(tree, Tensor) else None
        return
    for key, branch in tree.items():
        yield from _leaves(branch, f"{name}/{','.join(map(str, key)) + ',' if isinstance(key, tuple) else key}")


def _key(text: str) -> Any:
    """Return a key of the tree; "0,1,2," is an index of a grid."""
    return tuple(map(int, text[:-1].split(","))) if text.endswith(",") else text
