"""The runs and clients of a run batch one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from bench.train.batching.groups import FEW, groups
from bench.train.batching.local_steps import LocalSteps
from bench.train.batching.samples import Samples
from bench.train.mapping.mapper import (
    Grid,
    HookOf,
    Index,
    Mapper,
    SampleSource,
    WeightedRows,
    in_order,
    own,
)
from bench.train.trace.capture import Captured


class Loop(Mapper):
    """A mapper that calls hooks for one run and client at a time; clients may differ in shapes.

    ``variants`` numbers the clients' models: clients with the same number share their traced hooks.
    """

    path = "loop"

    def __init__(self, sizes: Mapping[str, int], variants: Sequence[int], first: int = 0) -> None:
        super().__init__(sizes, first)
        self.variants = variants

    def spread(self, axes: str, tree: Any) -> Grid:
        return {index: pytree.tree_map(lambda leaf: leaf[index], tree) for index in self.indices(axes)}  # noqa: B023

    def grid(self, axes: str, make: Callable[..., Any]) -> Grid:
        return {index: make(*index) for index in self.indices(axes)}

    def map(self, name: str, hook: HookOf, axes: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        return {index: self._call(name, hook, over, index, self._pick(grids, axes, over, index))
                for index in self.indices(over)}  # fmt: skip

    def train(
        self, name: str, step: HookOf, axes: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: SampleSource, work: LocalSteps,
    ) -> Grid:  # fmt: skip
        trained = {}
        for s, c, batches, keys in self._by_client(work):
            for h in range(self.sizes["H"]):
                index = (h, s, c)
                fixed = self._pick(grids, axes, "HSC", index)
                # Contiguous, so that one trace serves all mini-batches of a size without a check of strides at every
                # step.
                before, fixed = pytree.tree_map(own, state[index]), pytree.tree_map(torch.Tensor.contiguous, fixed)
                leaves: Sequence[Tensor]
                leaves, structure = pytree.tree_flatten(before)
                fixed_leaves = pytree.tree_leaves(fixed)
                steps: dict[int, Captured] = {}  # by size of the mini-batch
                for number, (rows, key) in enumerate(zip(batches, keys, strict=False)):
                    x, y = self._samples(source, s, c)[rows]
                    size, weight = len(rows), torch.full((len(rows),), 1 / len(rows))
                    step_inputs = (source.model_inputs(x, key), y, weight, key, torch.tensor(number))
                    if size not in steps:
                        current = pytree.tree_unflatten(leaves, structure)
                        steps[size] = self._capture_step(name, step, index, (current, *fixed, *step_inputs))
                    with torch.no_grad():
                        leaves = steps[size].flat(*leaves, *fixed_leaves, *step_inputs)
                trained[index] = pytree.tree_unflatten(leaves, structure)
        return trained

    def _by_client(self, work: LocalSteps) -> Iterator[tuple[int, int, list[Tensor], Tensor]]:
        """Yield seed, client, mini-batches and keys of all steps, drawn for FEW clients at once."""
        for s in range(self.sizes["S"]):
            for clients in groups(work.samples[self.clients], FEW):
                packed = work.of([s], self.clients[clients])
                for place, c in enumerate(clients.tolist()):
                    yield s, c, packed.batches(place), packed.keys[:, 0, place]

    def _samples(self, source: SampleSource, s: int, c: int) -> Samples:
        return source.data.samples[s, self.first + c]

    def _capture_step(self, name: str, step: HookOf, index: Index, arguments: Any) -> Captured:
        def ordered(state: Any, *rest: Any) -> Any:
            return in_order(state, step(index[2])(state, *rest))

        return self._capture((name, self.variants[index[2]]), lambda: ordered, arguments, iterated=True)

    def loss(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        weights: WeightedRows, size: int,
    ) -> Tensor:  # fmt: skip
        total = torch.zeros([self.sizes[axis] for axis in "HSC"])
        for index in self.indices("HSC"):
            fixed = self._pick(grids, axes, "HSC", index)
            rows, weight = (each[index[1], self.first + index[2]] for each in weights)
            for part, share in zip(torch.split(rows, size), torch.split(weight, size), strict=True):
                x, y = self._samples(source, *index[1:])[part]
                total[index] += self._call("loss", hook, "HSC", index, (*fixed, source.model_inputs(x), y, share))
        return total

    def outputs(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        def output(h: int, s: int, c: int, x: Tensor) -> Tensor:
            fixed = self._pick(grids, axes, "HSC", (h, s, c))
            parts = (source.model_inputs(part) for part in torch.split(x, size))
            return torch.cat([self._call("outputs", hook, "HSC", (h, s, c), (*fixed, part)) for part in parts])

        settings = range(self.sizes["H"])
        return {(s, c): torch.stack([output(h, s, c, x) for h in settings]) for (s, c), x in inputs.items()}

    def weighted(self, source: SampleSource, weights: WeightedRows) -> tuple[Grid, Grid, Grid]:
        inputs, targets, shares = {}, {}, {}
        for s, c in self.indices("SC"):
            rows, shares[s, c] = (each[s, self.first + c] for each in weights)
            x, targets[s, c] = self._samples(source, s, c)[rows]
            inputs[s, c] = source.model_inputs(x)
        return inputs, targets, shares

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

    def part(self, grid: Grid, settings: Sequence[int], seeds: Sequence[int]) -> Grid:
        places = {(h, s): (row, column) for row, h in enumerate(settings) for column, s in enumerate(seeds)}
        return {(*places[h, s], *rest): tree for (h, s, *rest), tree in grid.items() if (h, s) in places}

    def _call(self, name: str, hook: HookOf, over: str, index: Index, arguments: Any) -> Any:
        client = index[over.index("C")] if "C" in over else 0
        return self._capture((name, self.variants[client]), lambda: hook(client), arguments)(*arguments)

    @staticmethod
    def _pick(grids: Sequence[Grid], axes: Sequence[str], over: str, index: Index) -> tuple[Any, ...]:
        """Return the tree of each grid at an ``index`` along the axes ``over``."""
        own_indices = [tuple(index[over.index(axis)] for axis in each) for each in axes]
        return tuple(grid[place] if place else grid for grid, place in zip(grids, own_indices, strict=True))


def _all_finite(leaf: Tensor) -> bool:
    # A sum is ten times as fast to check, but the sum of large finite numbers may be infinite.
    return bool(torch.isfinite(leaf.sum())) or bool(torch.isfinite(leaf).all())
