"""The interface that the stack and the loop share.

A *grid* holds one tree for each index along its axes: settings (H), seeds (S) and clients (C). Its axes are written as
a string: a mini-batch has axes "SC" because it does not depend on the setting, a client's state has axes "HSC". The
stack stores a grid as one tree whose leaves have these axes as leading dimensions. The loop stores it as a dictionary
from index to tree. Both run the same hooks, traced once (:mod:`bench.train.trace`).
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench.train.batching.client_data import ClientData
from bench.train.batching.local_steps import LocalSteps
from bench.train.batching.ragged import Ragged
from bench.train.trace.capture import Captured

Grid = Any
Hook = Callable[..., Any]
HookOf = Callable[[int], Hook]  # from a client's index to its hook: clients whose models differ need different hooks
Index = tuple[int, ...]


class WeightedRows(NamedTuple):
    """Rows of the samples of every (seed, client), and their weights."""

    rows: Ragged
    weights: Ragged


class SampleSource(Protocol):
    """The stored samples of every (seed, client), and their conversion to model inputs."""

    @property
    def data(self) -> ClientData: ...

    def model_inputs(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Return stored inputs (..., n, features...) as model inputs; with keys (...), augmented for training."""


class Mapper(ABC):
    """Apply hooks along the axes of a run batch; ``sizes`` are the lengths of H, S and C.

    C counts from client number ``first`` of the run batch, H and S from its first setting and seed.
    """

    path: Literal["stack", "loop"]

    def __init__(self, sizes: Mapping[str, int], first: int = 0) -> None:
        self.sizes, self.first = dict(sizes), first
        self._captured: dict[Any, Captured] = {}

    def indices(self, axes: str) -> Iterator[Index]:
        """Return all indices along the axes, the last axis varying fastest."""
        return itertools.product(*(range(self.sizes[axis]) for axis in axes))

    @property
    def clients(self) -> Tensor:
        """The numbers of the clients, (C,)."""
        return torch.arange(self.first, self.first + self.sizes["C"])

    @abstractmethod
    def spread(self, axes: str, tree: Any) -> Grid:
        """Return the grid of a tree whose leaves have the axes as leading dimensions."""

    @abstractmethod
    def grid(self, axes: str, make: Callable[..., Any]) -> Grid:
        """Return the grid of ``make(*index)``."""

    @abstractmethod
    def map(self, name: str, hook: HookOf, axes: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        """Apply ``hook`` to the grids index by index; return a grid with the axes ``over``.

        ``axes`` are those of each grid; ``name`` identifies the hook among the traces.
        """

    @abstractmethod
    def train(
        self, name: str, step: HookOf, axes: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: SampleSource, work: LocalSteps,
    ) -> Grid:  # fmt: skip
        """Return the states after a round of local steps ``step(state, *grids, x, y, weight, key, number) -> state``.

        ``axes`` are those of each of ``grids``; ``name`` identifies the kind of step among the traces.
        """

    @abstractmethod
    def loss(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        weights: WeightedRows, size: int,
    ) -> Tensor:  # fmt: skip
        """Return the sums (H, S, C) of ``hook(*grids, x, y, weight)`` over samples.

        The loop passes at most ``size`` samples to the hook at a time.
        """

    @abstractmethod
    def weighted(self, source: SampleSource, weights: WeightedRows) -> tuple[Grid, Grid, Grid]:
        """Return grids with axes "SC" of model inputs, targets and weights."""

    @abstractmethod
    def outputs(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        """Return, for each (seed, client) with ``inputs`` (n, ...), the results (H, n, k) of ``hook(*grids, x)``.

        The loop passes at most ``size`` samples to the hook at a time.
        """

    @abstractmethod
    def gather(self, grid: Grid) -> Grid:
        """Return a grid with axes "HSC" as one with axes "HS" whose leaves have the clients as first dimension."""

    @abstractmethod
    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        """Return a grid of pairs as a pair of grids."""

    @abstractmethod
    def numbers(self, grid: Grid) -> Any:
        """Return a grid with axes "HSC" as one tree whose leaves have leading dimensions (H, S, C)."""

    @abstractmethod
    def finite(self, grid: Grid) -> Tensor:
        """Return whether all numbers are finite, (H, S, C)."""

    @abstractmethod
    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        """Return ``new`` where ``mask`` (H, S, C) is true and ``old`` elsewhere; all have axes "HSC"."""

    @abstractmethod
    def at(self, grid: Grid, index: Index) -> Any:
        """Return the tree at one index of a grid."""

    @abstractmethod
    def part(self, grid: Grid, settings: Sequence[int], seeds: Sequence[int]) -> Grid:
        """Return the part of a grid with axes "HS" or "HSC" that belongs to some settings and seeds, by position."""

    def resized(self, settings: int, seeds: int) -> Self:
        """Return a mapper for as many settings and seeds that shares the traces of this one."""
        other = copy.copy(self)
        other.sizes = {**self.sizes, "H": settings, "S": seeds}
        return other

    def longest(self, name: str) -> Captured:
        """Return the trace with the most operations among those of the hook ``name``."""
        traces = [captured for key, captured in self._captured.items() if key[0][0] == name]
        return max(traces, key=lambda captured: captured.operations)

    def _capture(self, name: Any, hook: Callable[[], Hook], arguments: Any, iterated: bool = False) -> Captured:
        leaves, structure = pytree.tree_flatten(arguments)
        signature = (name, structure, tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves))
        if signature not in self._captured:
            self._captured[signature] = Captured(hook(), *arguments, iterated=iterated)
        return self._captured[signature]


def in_order(state: Any, after: Any, leaf: Callable[[Tensor, Tensor], Tensor] = lambda old, new: new) -> Any:
    """Return the state ``after`` a step with its entries in the order of ``state``.

    The next step takes leaves by position, so that the order must not change. ``leaf`` combines old and new leaves.
    """
    return pytree.tree_map(leaf, state, after)


def own(leaf: Tensor) -> Tensor:
    """Return a contiguous copy that local steps may overwrite."""
    return leaf.clone(memory_format=torch.contiguous_format)
