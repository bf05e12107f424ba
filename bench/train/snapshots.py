"""Snapshots: the state of a run batch on disk, from which training resumes after an interruption.

A snapshot holds a tree of tensors and metadata, with a checksum. It is written atomically. A resumed run equals an
uninterrupted one bit by bit. Training needs no snapshot: one that cannot be written, read or trusted is a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from bench.files import write_whole

_log = logging.getLogger(__name__)


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
    _warned: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def due(self, round_: int) -> bool:
        """Return whether to write the state after ``round_`` rounds."""
        late = time.monotonic() - self._last >= self.every_seconds
        return late or (self.every_rounds is not None and round_ % self.every_rounds == 0)

    def write(self, tree: Mapping[Any, Any], metadata: Mapping[str, Any]) -> None:
        """Write the tree (nested dictionaries of tensors) and the metadata (plain containers).

        Log a warning, once, if they cannot be written (full disk, no permission).
        """
        leaves = dict(_leaves(tree, "tree"))
        # A branch without tensors (the state of an optimiser without momentum) must be listed by name.
        bare = [name for name, leaf in leaves.items() if leaf is None]
        text = json.dumps({"identity": self.identity, "bare": bare, "metadata": metadata}, allow_nan=False)
        tensors = {name: leaf.contiguous().clone() for name, leaf in leaves.items() if leaf is not None}
        content = save({**tensors, "metadata": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)})
        self._last = time.monotonic()
        try:
            write_whole(self.file, hashlib.sha256(content).digest() + content)
        except OSError as error:
            if not self._warned:
                what = f"snapshots cannot be written ({error.strerror or error})"
                _log.warning("%s: %s; training continues without them", self.file.parent, what)
            self._warned = True

    def read(self) -> tuple[dict[Any, Any], dict[str, Any]] | None:
        """Return the tree and the metadata; None if there is no file, or if it belongs to another run batch.

        A damaged file is renamed, so that its run batch starts again; a warning says so.
        """
        try:
            found = self.file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            _log.warning("%s: cannot be read (%s); its runs start again", self.file, error.strerror or error)
            return None
        digest, content = found[:32], found[32:]
        if hashlib.sha256(content).digest() != digest:
            aside = self.file.with_name(f"{self.file.name}.damaged")
            with suppress(OSError):
                self.file.replace(aside)
            expected = f"its sha256 is {hashlib.sha256(content).hexdigest()}, written {digest.hex()}"
            _log.warning("%s: damaged, %s; renamed to %s, its runs start again", self.file, expected, aside.name)
            return None
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
        """Delete the file, if this is permitted."""
        with suppress(OSError):
            self.file.unlink()


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
