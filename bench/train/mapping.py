"""Hooks mapped over a population: all runs and clients at once (stack), or one after another (loop).

A *grid* holds one tree per point of its axes: settings (H), seeds (S) and clients (C). Its *kind* says which, so a
batch has kind "SC" (it does not depend on the setting) and a client's state "HSC". Stacked, a grid is one tree whose
leaves lead with these axes; looped, it is a dictionary from index to tree. Both run the same hooks, captured.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from bench.train.capture import Captured

Grid = Any
Hook = Callable[..., Any]
HookOf = Callable[[int], Hook]  # of a client: clients whose models differ need hooks of their own
Index = tuple[int, ...]


class Source(Protocol):
    """Where samples come from: each client's stored (x, y), and what the model is shown of stored inputs."""

    @property
    def samples(self) -> Sequence[tuple[Tensor, Tensor]]: ...

    def look(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Inputs (..., n, features...) as the model sees them; with keys (...), augmented for training."""


@dataclass(frozen=True)
class LocalWork:
    """One client's local steps of a round: row numbers of each mini-batch, and each step's key."""

    batches: Sequence[Tensor]  # row numbers into the client's samples, one (b,) per step
    keys: Tensor  # (steps,)


class Mapper(ABC):
    """Maps hooks over the axes of a population; ``sizes`` are the lengths of H, S and C."""

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
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int | None,
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
        inputs: Mapping[int, Tensor], size: int | None,
    ) -> dict[int, Tensor]:  # fmt: skip
        """For each client with ``inputs`` (n, ...), the results (H, S, n, k) of ``hook(*grids, x)``."""

    @abstractmethod
    def gather(self, grid: Grid) -> Grid:
        """A grid of kind "HSC" as one of kind "HS" whose leaves lead with the clients."""

    @abstractmethod
    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        """A grid of pairs as a pair of grids."""

    @abstractmethod
    def numbers(self, grid: Grid) -> Tensor:
        """A "HSC" grid of scalars as one tensor (H, S, C)."""

    @abstractmethod
    def finite(self, grid: Grid) -> Tensor:
        """Whether all numbers are finite, (H, S, C)."""

    @abstractmethod
    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        """A "HSC" grid: ``new`` where ``mask`` (H, S, C) holds, ``old`` elsewhere."""

    @abstractmethod
    def at(self, grid: Grid, index: Index) -> Any:
        """The tree of a grid at one point."""

    def operations(self, name: str) -> int:
        """How many tensor operations the longest trace of the hook ``name`` has."""
        return max(captured.operations for key, captured in self._captured.items() if key[0][0] == name)

    def _capture(self, name: Any, hook: Callable[[], Hook], arguments: Any) -> Captured:
        leaves, structure = pytree.tree_flatten(arguments)
        signature = (name, structure, tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves))
        if signature not in self._captured:
            self._captured[signature] = Captured(hook(), *arguments)
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
        state, fixed = pytree.tree_map(torch.Tensor.contiguous, (state, tuple(grids)))
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

        moment = ["SC", "SC", "SC", "SC", "", "SC"]
        return self._capture((name, ragged), lambda: _vmapped(masked, ["HSC", *kinds, *moment], "HSC"), arguments)

    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int | None,
    ) -> Tensor:  # fmt: skip
        x, y, weight = self.weighted(source, weights)
        return self.map("loss", hook, [*kinds, "SC", "SC", "SC"], *grids, x, y, weight)

    def weighted(self, source: Source, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        width = max(len(rows) for rows, _ in weights.values())

        def padded(s: int, c: int) -> tuple[Tensor, Tensor, Tensor]:
            rows, weight = weights[s, c]
            x, y = source.samples[c]
            filled = torch.cat([rows, rows.new_zeros(width - len(rows))])
            return source.look(x[filled]), y[filled], torch.cat([weight, weight.new_zeros(width - len(rows))])

        x, y, weight = self.grid("SC", padded)
        return x, y, weight

    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        inputs: Mapping[int, Tensor], size: int | None,
    ) -> dict[int, Tensor]:  # fmt: skip
        width = max(len(x) for x in inputs.values())
        example = next(iter(inputs.values()))

        def padded(c: int) -> Tensor:
            x = inputs.get(c, example[:0])
            return source.look(torch.cat([x, x.new_zeros(width - len(x), *x.shape[1:])]))

        output = self.map("outputs", hook, [*kinds, "C"], *grids, self.grid("C", padded))
        return {c: output[:, :, c, : len(x)] for c, x in inputs.items()}

    def gather(self, grid: Grid) -> Grid:
        return grid

    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        first, second = grid
        return first, second

    def numbers(self, grid: Grid) -> Tensor:
        numbers: Tensor = grid
        return numbers

    def finite(self, grid: Grid) -> Tensor:
        return torch.stack([torch.isfinite(leaf).flatten(3).all(-1) if leaf.dim() > 3 else torch.isfinite(leaf)
                            for leaf in pytree.tree_leaves(grid)]).all(0)  # fmt: skip

    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        def choose(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(mask.reshape(*mask.shape, *[1] * (a.dim() - 3)), a, b)

        return pytree.tree_map(choose, new, old)

    def at(self, grid: Grid, index: Index) -> Any:
        return pytree.tree_map(lambda leaf: leaf[index], grid)


@dataclass(frozen=True)
class _Packed:
    """A round's local work of all seeds and clients, padded: leading axes (steps, S, C)."""

    x: Tensor  # all clients' samples, one after another
    y: Tensor
    rows: Tensor  # into x and y, (..., b)
    weight: Tensor  # (..., b), 0 for padding
    keys: Tensor
    active: Tensor  # whether the client still takes this step
    ragged: bool
    look: Callable[[Tensor, Tensor], Tensor]

    @classmethod
    def of(cls, sizes: Mapping[str, int], source: Source, work: Mapping[Index, LocalWork]) -> _Packed:
        offsets = [0, *itertools.accumulate(len(x) for x, _ in source.samples)]
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
            mine = torch.zeros(len(lengths), width, dtype=torch.int64)
            mine[there] = torch.cat(list(each.batches))
            rows[: len(lengths), s, c] = mine + offsets[c]
            weight[: len(lengths), s, c] = there / lengths[:, None]
            keys[: len(lengths), s, c] = each.keys
            active[: len(lengths), s, c] = True
        x, y = (torch.cat(parts) for parts in zip(*source.samples, strict=True))
        return cls(x, y, rows, weight, keys, active, not bool(active.all()), source.look)

    def chunks(self, limit: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """First step, inputs and targets of as many steps at a time as fit into ``limit`` bytes."""
        step = self.rows[0].numel() * self.x[0].numel() * self.x.element_size()
        together = max(1, limit // step)
        for first in range(0, len(self.rows), together):
            rows, keys = self.rows[first : first + together], self.keys[first : first + together]
            yield first, self.look(self.x[rows], keys), self.y[rows]

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
            before, fixed = pytree.tree_map(torch.Tensor.contiguous, (state[index], fixed))
            leaves: Sequence[Tensor]
            leaves, structure = pytree.tree_flatten(before)
            fixed_leaves = pytree.tree_leaves(fixed)
            x, y = source.samples[index[2]]
            steppers: dict[int, Captured] = {}
            for number, rows in enumerate(mine.batches):
                key, size = mine.keys[number], len(rows)
                moment = (source.look(x[rows], key), y[rows], torch.full((size,), 1 / size), key, torch.tensor(number))
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

        return self._capture((name, self.variants[index[2]]), lambda: ordered, arguments)

    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int | None,
    ) -> Tensor:  # fmt: skip
        total = torch.zeros([self.sizes[axis] for axis in "HSC"])
        for index in self.indices("HSC"):
            fixed = self._pick(grids, kinds, "HSC", index)
            x, y = source.samples[index[2]]
            rows, weight = weights[index[1:]]
            for part, share in zip(_parts(rows, size), _parts(weight, size), strict=True):
                seen = source.look(x[part])
                total[index] += self._call("loss", hook, "HSC", index, (*fixed, seen, y[part], share))
        return total

    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: Source,
        inputs: Mapping[int, Tensor], size: int | None,
    ) -> dict[int, Tensor]:  # fmt: skip
        def output(h: int, s: int, c: int, x: Tensor) -> Tensor:
            fixed = self._pick(grids, kinds, "HSC", (h, s, c))
            parts = (source.look(part) for part in _parts(x, size))
            return torch.cat([self._call("outputs", hook, "HSC", (h, s, c), (*fixed, part)) for part in parts])

        return {
            c: torch.stack([torch.stack([output(h, s, c, x) for s in range(self.sizes["S"])])
                            for h in range(self.sizes["H"])])
            for c, x in inputs.items()
        }  # fmt: skip

    def weighted(self, source: Source, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        def part(place: int) -> Grid:
            found = {}
            for index, (rows, weight) in weights.items():
                x, y = source.samples[index[1]]
                found[index] = (source.look(x[rows]), y[rows], weight)[place]
            return found

        return part(0), part(1), part(2)

    def gather(self, grid: Grid) -> Grid:
        def stacked(h: int, s: int) -> Any:
            trees = [grid[h, s, c] for c in range(self.sizes["C"])]
            return pytree.tree_map(lambda *leaves: torch.stack(leaves), *trees)

        return {index: stacked(*index) for index in self.indices("HS")}

    def unzip(self, grid: Grid) -> tuple[Grid, Grid]:
        return {index: pair[0] for index, pair in grid.items()}, {index: pair[1] for index, pair in grid.items()}

    def numbers(self, grid: Grid) -> Tensor:
        sizes = [self.sizes[axis] for axis in "HSC"]
        return torch.stack([grid[index] for index in self.indices("HSC")]).reshape(sizes)

    def finite(self, grid: Grid) -> Tensor:
        flags = torch.ones([self.sizes[axis] for axis in "HSC"], dtype=torch.bool)
        for index, tree in grid.items():
            flags[index] = all(bool(torch.isfinite(leaf).all()) for leaf in pytree.tree_leaves(tree))
        return flags

    def where(self, mask: Tensor, new: Grid, old: Grid) -> Grid:
        return {index: new[index] if mask[index] else old[index] for index in new}

    def at(self, grid: Grid, index: Index) -> Any:
        return grid[index]

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


def _parts(rows: Tensor, size: int | None) -> tuple[Tensor, ...]:
    return (rows,) if size is None else torch.split(rows, size)


def _vmapped(hook: Hook, kinds: Sequence[str], over: str) -> Hook:
    for axis in reversed(over):
        hook = vmap(hook, in_dims=tuple(0 if axis in kind else None for kind in kinds))
    return hook
