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
from torch.func import vmap
from torch.utils import _pytree as pytree

from bench.train.batches import Samples
from bench.train.trace.capture import Captured

Grid = Any
Hook = Callable[..., Any]
HookOf = Callable[[int], Hook]  # of a client: clients whose models differ need hooks of their own
Index = tuple[int, ...]


class Source(Protocol):
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
        source: Source, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        """The states after a round of local steps: ``step(state, *grids, x, y, weight, key, number) -> state``.

        ``kinds`` are those of ``grids``; ``work`` is by (seed, client), ``name`` says what the steps are for.
        """

    @abstractmethod
    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int,
    ) -> Tensor:  # fmt: skip
        """Sums (H, S, C) of ``hook(*grids, x, y, weight)`` over samples.

        ``weights`` are (rows, weights) by (seed, client); ``size`` is how many samples the loop takes at a time.
        """

    @abstractmethod
    def weighted(self, source: Source, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        """Grids of kind "SC" of inputs, targets and weights; ``weights`` are (rows, weights) by (seed, client)."""

    @abstractmethod
    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
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


class Stack(Mapper):
    """All runs and clients as one batched program; clients agree in shapes, ragged ones are padded."""

    path = "stack"
    gathered = 2**26  # bytes of a round's mini-batches that are gathered at a time

    def grid(self, kind: str, make: Callable[..., Any]) -> Grid:
        trees = [make(*index) for index in self.indices(kind)]
        shape = [self.sizes[axis] for axis in kind]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves).reshape(*shape, *leaves[0].shape), *trees)

    def map(self, name: str, hook: HookOf, kinds: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        # Contiguous, so that one trace serves every call.
        arguments = pytree.tree_map(torch.Tensor.contiguous, grids)
        return self._capture((name, over), lambda: _vmapped(hook(0), kinds, over), arguments)(*arguments)

    def train(
        self, name: str, step: HookOf, kinds: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: Source, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        packed = _Packed.of(self.sizes, source, work)
        state, fixed = pytree.tree_map(_own, state), pytree.tree_map(torch.Tensor.contiguous, tuple(grids))
        leaves: Sequence[Tensor]
        leaves, structure = pytree.tree_flatten(state)
        fixed_leaves = pytree.tree_leaves(fixed)
        for first, x, y in packed.chunks(self.gathered):
            for k in range(len(x)):
                moment = packed.moment(first + k, x[k], y[k])
                if first + k == 0:
                    captured = self._stepper(name, step, kinds, packed.ragged, (state, *fixed, *moment))
                with torch.no_grad():
                    leaves = captured.flat(*leaves, *fixed_leaves, *moment)
        return pytree.tree_unflatten(leaves, structure)

    def _stepper(self, name: str, step: HookOf, kinds: Sequence[str], ragged: bool, arguments: Any) -> Captured:
        def masked(state: Any, *rest: Any) -> Any:
            *others, active = rest
            after = step(0)(state, *others)
            # A client that has taken all its steps of the round waits for the others.
            return _in_order(state, after, lambda old, new: torch.where(active, new, old) if ragged else new)

        kinds = ["HSC", *kinds, "SC", "SC", "SC", "SC", "", "SC"]
        return self._capture((name, ragged), lambda: _vmapped(masked, kinds, "HSC"), arguments, onward=True)

    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int,
    ) -> Tensor:  # fmt: skip
        x, y, weight = self.weighted(source, weights)
        return self.map("loss", hook, [*kinds, "SC", "SC", "SC"], *grids, x, y, weight)

    def weighted(self, source: Source, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        width = max(len(rows) for rows, _ in weights.values())

        def padded(s: int, c: int) -> tuple[Tensor, Tensor, Tensor]:
            rows, weight = weights[s, c]
            x, y = source.samples[s, c][torch.cat([rows, rows.new_zeros(width - len(rows))])]
            return source.look(x), y, torch.cat([weight, weight.new_zeros(width - len(rows))])

        x, y, weight = self.grid("SC", padded)
        return x, y, weight

    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        width = max(len(x) for x in inputs.values())
        example = next(iter(inputs.values()))
        # What all seeds share is stacked once.
        kind = "C" if all(x is inputs[0, c] for (_, c), x in inputs.items()) else "SC"

        def padded(*index: int) -> Tensor:
            x = inputs.get((0, *index)[-2:], example[:0])
            return source.look(torch.cat([x, x.new_zeros(width - len(x), *x.shape[1:])]))

        output = self.map("outputs", hook, [*kinds, kind], *grids, self.grid(kind, padded))
        return {(s, c): output[:, s, c, : len(x)] for (s, c), x in inputs.items()}

    def gather(self, grid: Grid) -> Grid:
        return grid

    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        first, second = grid
        return first, second

    def numbers(self, grid: Grid) -> Any:
        return grid

    def finite(self, grid: Grid) -> Tensor:
        return torch.stack([torch.isfinite(leaf).flatten(3).all(-1) if leaf.dim() > 3 else torch.isfinite(leaf)
                            for leaf in pytree.tree_leaves(grid)]).all(0)  # fmt: skip

    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        def choose(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(mask.reshape(*mask.shape, *[1] * (a.dim() - 3)), a, b)

        return pytree.tree_map(choose, new, old)

    def at(self, grid: Grid, index: Index) -> Any:
        return pytree.tree_map(lambda leaf: leaf[index], grid)

    def settings(self, grid: Grid, chosen: Sequence[int]) -> Grid:
        return pytree.tree_map(lambda leaf: leaf[list(chosen)], grid)


@dataclass(frozen=True)
class _Packed:
    """A round's local work of all seeds and clients, padded: leading axes (steps, S, C)."""

    source: Source
    rows: Tensor  # among each client's samples, (..., b)
    weight: Tensor  # (..., b), 0 for padding
    keys: Tensor
    active: Tensor  # whether the client still takes this step
    ragged: bool

    @classmethod
    def of(cls, sizes: Mapping[str, int], source: Source, work: Mapping[Index, LocalWork]) -> _Packed:
        steps = max(len(each.batches) for each in work.values())
        width = max(len(batch) for each in work.values() for batch in each.batches)
        shape = (steps, sizes["S"], sizes["C"])
        rows = torch.zeros(*shape, width, dtype=torch.int64)
        weight = torch.zeros(*shape, width)
        keys = torch.zeros(shape, dtype=torch.int64)
        active = torch.zeros(shape, dtype=torch.bool)
        for (s, c), each in work.items():
            lengths = torch.tensor([len(batch) for batch in each.batches])
            there = torch.arange(width) < lengths[:, None]
            rows[: len(lengths), s, c][there] = torch.cat(list(each.batches))
            weight[: len(lengths), s, c] = there / lengths[:, None]
            keys[: len(lengths), s, c] = each.keys
            active[: len(lengths), s, c] = True
        return cls(source, rows, weight, keys, active, not bool(active.all()))

    def chunks(self, limit: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """First step, inputs and targets of as many steps at a time as fit into ``limit`` bytes."""
        together = max(1, limit // (self.rows[0].numel() * self.source.samples[0, 0].input_bytes))
        for first in range(0, len(self.rows), together):
            rows, keys = self.rows[first : first + together], self.keys[first : first + together]
            pairs = [self._gathered(c, rows[:, :, c]) for c in range(rows.shape[2])]
            x, y = (torch.stack(parts, 2) for parts in zip(*pairs, strict=True))
            yield first, self.source.look(x, keys), y

    def _gathered(self, c: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a client for ``rows`` (steps, S, b)."""
        samples = [self.source.samples[s, c] for s in range(rows.shape[1])]
        if all(each is samples[0] for each in samples):
            return samples[0][rows]
        x, y = zip(*(each[rows[:, s]] for s, each in enumerate(samples)), strict=True)
        return torch.stack(x, 1), torch.stack(y, 1)

    def moment(self, k: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x, y, self.weight[k], self.keys[k], torch.tensor(k), self.active[k]


class Loop(Mapper):
    """One run and client after another; clients may differ in shapes.

    ``variants`` numbers the clients' models: clients with the same number share their captured hooks.
    """

    path = "loop"

    def __init__(self, sizes: Mapping[str, int], variants: Sequence[int]) -> None:
        super().__init__(sizes)
        self.variants = variants

    def grid(self, kind: str, make: Callable[..., Any]) -> Grid:
        return {index: make(*index) for index in self.indices(kind)}

    def map(self, name: str, hook: HookOf, kinds: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        return {index: self._call(name, hook, over, index, self._pick(grids, kinds, over, index))
                for index in self.indices(over)}  # fmt: skip

    def train(
        self, name: str, step: HookOf, kinds: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: Source, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        trained = {}
        for index in self.indices("HSC"):
            mine, fixed = work[index[1:]], self._pick(grids, kinds, "HSC", index)
            # Contiguous, so that a trace serves all mini-batches of a size, without a look at the trees at every step.
            before, fixed = pytree.tree_map(_own, state[index]), pytree.tree_map(torch.Tensor.contiguous, fixed)
            leaves: Sequence[Tensor]
            leaves, structure = pytree.tree_flatten(before)
            fixed_leaves = pytree.tree_leaves(fixed)
            steppers: dict[int, Captured] = {}
            for number, rows in enumerate(mine.batches):
                key, size = mine.keys[number], len(rows)
                x, y = source.samples[index[1:]][rows]
                moment = (source.look(x, key), y, torch.full((size,), 1 / size), key, torch.tensor(number))
                if size not in steppers:
                    now = pytree.tree_unflatten(leaves, structure)
                    steppers[size] = self._stepper(name, step, index, (now, *fixed, *moment))
                with torch.no_grad():
                    leaves = steppers[size].flat(*leaves, *fixed_leaves, *moment)
            trained[index] = pytree.tree_unflatten(leaves, structure)
        return trained

    def _stepper(self, name: str, step: HookOf, index: Index, arguments: Any) -> Captured:
        def ordered(state: Any, *rest: Any) -> Any:
            return _in_order(state, step(index[2])(state, *rest))

        return self._capture((name, self.variants[index[2]]), lambda: ordered, arguments, onward=True)

    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int,
    ) -> Tensor:  # fmt: skip
        total = torch.zeros([self.sizes[axis] for axis in "HSC"])
        for index in self.indices("HSC"):
            fixed = self._pick(grids, kinds, "HSC", index)
            rows, weight = weights[index[1:]]
            for part, share in zip(torch.split(rows, size), torch.split(weight, size), strict=True):
                x, y = source.samples[index[1:]][part]
                total[index] += self._call("loss", hook, "HSC", index, (*fixed, source.look(x), y, share))
        return total

    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        def output(h: int, s: int, c: int, x: Tensor) -> Tensor:
            fixed = self._pick(grids, kinds, "HSC", (h, s, c))
            parts = (source.look(part) for part in torch.split(x, size))
            return torch.cat([self._call("outputs", hook, "HSC", (h, s, c), (*fixed, part)) for part in parts])

        settings = range(self.sizes["H"])
        return {(s, c): torch.stack([output(h, s, c, x) for h in settings]) for (s, c), x in inputs.items()}

    def weighted(self, source: Source, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        inputs, targets = {}, {}
        for (s, c), (rows, _) in weights.items():
            x, targets[s, c] = source.samples[s, c][rows]
            inputs[s, c] = source.look(x)
        return inputs, targets, {index: weight for index, (_, weight) in weights.items()}

    def gather(self, grid: Grid) -> Grid:
        def stacked(h: int, s: int) -> Any:
            trees = [grid[h, s, c] for c in range(self.sizes["C"])]
            return pytree.tree_map(lambda *leaves: torch.stack(leaves), *trees)

        return {index: stacked(*index) for index in self.indices("HS")}

    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        return {index: pair[0] for index, pair in grid.items()}, {index: pair[1] for index, pair in grid.items()}

    def numbers(self, grid: Grid) -> Any:
        sizes = [self.sizes[axis] for axis in "HSC"]
        trees = [grid[index] for index in self.indices("HSC")]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves).reshape(*sizes, *leaves[0].shape), *trees)

    def finite(self, grid: Grid) -> Tensor:
        flags = torch.ones([self.sizes[axis] for axis in "HSC"], dtype=torch.bool)
        for index, tree in grid.items():
            flags[index] = all(_all_finite(leaf) for leaf in pytree.tree_leaves(tree))
        return flags

    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        return {index: new[index] if mask[index] else old[index] for index in new}

    def at(self, grid: Grid, index: Index) -> Any:
        return grid[index]

    def settings(self, grid: Grid, chosen: Sequence[int]) -> Grid:
        places = {h: place for place, h in enumerate(chosen)}
        return {(places[h], *rest): tree for (h, *rest), tree in grid.items() if h in places}

    def _call(self, name: str, hook: HookOf, over: str, index: Index, arguments: Any) -> Any:
        client = index[over.index("C")] if "C" in over else 0
        return self._capture((name, self.variants[client]), lambda: hook(client), arguments)(*arguments)

    @staticmethod
    def _pick(grids: Sequence[Grid], kinds: Sequence[str], over: str, index: Index) -> tuple[Any, ...]:
        """The trees at one point of a grid of kind ``over``."""
        places = [tuple(index[over.index(axis)] for axis in kind) for kind in kinds]
        return tuple(grid[place] if place else grid for grid, place in zip(grids, places, strict=True))


def _in_order(state: Any, after: Any, leaf: Callable[[Tensor, Tensor], Tensor] = lambda old, new: new) -> Any:
    """The state ``after`` a step, its entries in the order of ``state``: the next step takes leaves by position."""
    return pytree.tree_map(leaf, state, after)


def _own(leaf: Tensor) -> Tensor:
    """A copy that local steps may write over."""
    return leaf.clone(memory_format=torch.contiguous_format)


def _all_finite(leaf: Tensor) -> bool:
    # A sum is ten times as quick to look at, but large numbers may have an infinite one.
    return bool(torch.isfinite(leaf.sum())) or bool(torch.isfinite(leaf).all())


def _vmapped(hook: Hook, kinds: Sequence[str], over: str) -> Hook:
    for axis in reversed(over):
        hook = vmap(hook, in_dims=tuple(0 if axis in kind else None for kind in kinds))
    return hook
