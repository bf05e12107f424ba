"""Hooks mapped over a run batch: all runs and clients at once (stack), or one after another (loop).

A *grid* holds one tree per point of its axes: settings (H), seeds (S) and clients (C). Its *kind* says which, so a
batch has kind "SC" (it does not depend on the setting) and a client's state "HSC". Stacked, a grid is one tree whose
leaves lead with these axes; looped, it is a dictionary from index to tree. Both run the same hooks, captured.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench.train.batching.samples import Samples
from bench.train.trace.capture import Captured

Grid = Any
Hook = Callable[..., Any]
HookOf = Callable[[int], Hook]  # of a client: clients whose models differ need hooks of their own
Index = tuple[int, ...]


class SampleSource(Protocol):
    """Where samples come from: those of every (seed, client), as stored, and what the model is shown of them."""

    @property
    def samples(self) -> Mapping[Index, Samples]: ...

    def look(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Inputs (..., n, features...) as the model sees them; with keys (...), augmented for training."""


@dataclass(frozen=True)
class LocalWork:
    """One client's local steps of a round: row numbers of each mini-batch, and each step's key."""

    batches: Sequence[Tensor]  # row numbers into the client's samples, one (b,) per step
    keys: Tensor  # (steps,)


class Mapper(ABC):
    """Maps hooks over the axes of a run batch; ``sizes`` are the lengths of H, S and C."""

    path: Literal["stack", "loop"]

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self._captured: dict[Any, Captured] = {}

    def indices(self, kind: str) -> Iterator[Index]:
        """All points of a grid of this kind, in order."""
        return itertools.product(*(range(self.sizes[axis]) for axis in kind))

    @abstractmethod
    def grid(self, kind: str, make: Callable[..., Any]) -> Grid:
        """The grid of ``make(*index)``."""

    @abstractmethod
    def map(self, name: str, hook: HookOf, kinds: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        """The grid of kind ``over`` of ``hook`` applied to the grids (of the given kinds) point by point."""

    @abstractmethod
    def train(
        self, name: str, step: HookOf, kinds: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: SampleSource, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        """The states after a round of local steps: ``step(state, *grids, x, y, weight, key, number) -> state``.

        ``kinds`` are those of ``grids``; ``work`` is by (seed, client), ``name`` says what the steps are for.
        """

    @abstractmethod
    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int,
    ) -> Tensor:  # fmt: skip
        """Sums (H, S, C) of ``hook(*grids, x, y, weight)`` over samples.

        ``weights`` are (rows, weights) by (seed, client); ``size`` is how many samples the loop takes at a time.
        """

    @abstractmethod
    def weighted(self, source: SampleSource, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        """Grids of kind "SC" of inputs, targets and weights; ``weights`` are (rows, weights) by (seed, client)."""

    @abstractmethod
    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        """For each (seed, client) with ``inputs`` (n, ...), the results (H, n, k) of ``hook(*grids, x)``."""

    @abstractmethod
    def gather(self, grid: Grid) -> Grid:
        """A grid of kind "HSC" as one of kind "HS" whose leaves lead with the clients."""

    @abstractmethod
    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        """A grid of pairs as a pair of grids."""

    @abstractmethod
    def numbers(self, grid: Grid) -> Any:
        """A "HSC" grid of trees as one tree whose leaves lead with (H, S, C)."""

    @abstractmethod
    def finite(self, grid: Grid) -> Tensor:
        """Whether all numbers are finite, (H, S, C)."""

    @abstractmethod
    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        """A "HSC" grid: ``new`` where ``mask`` (H, S, C) holds, ``old`` elsewhere."""

    @abstractmethod
    def at(self, grid: Grid, index: Index) -> Any:
        """The tree of a grid at one point."""

    @abstractmethod
    def settings(self, grid: Grid, chosen: Sequence[int]) -> Grid:
        """A grid of kind "HS" or "HSC" of the chosen settings alone."""

    def resized(self, settings: int) -> Self:
        """A mapper of so many settings that shares the traces of this one."""
        other = copy.copy(self)
        other.sizes = {**self.sizes, "H": settings}
        return other

    def longest(self, name: str) -> Captured:
        """The longest trace of the hook ``name``."""
        traces = [captured for key, captured in self._captured.items() if key[0][0] == name]
        return max(traces, key=lambda captured: captured.operations)

    def _capture(self, name: Any, hook: Callable[[], Hook], arguments: Any, onward: bool = False) -> Captured:
        leaves, structure = pytree.tree_flatten(arguments)
        signature = (name, structure, tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves))
        if signature not in self._captured:
            self._captured[signature] = Captured(hook(), *arguments, onward=onward)
        return self._captured[signature]


def in_order(state: Any, after: Any, leaf: Callable[[Tensor, Tensor], Tensor] = lambda old, new: new) -> Any:
    """The state ``after`` a step, its entries in the order of ``state``: the next step takes leaves by position."""
    return pytree.tree_map(leaf, state, after)


def own(leaf: Tensor) -> Tensor:
    """A copy that local steps may write over."""
    return leaf.clone(memory_format=torch.contiguous_format)
