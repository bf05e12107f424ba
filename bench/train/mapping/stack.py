"""All runs and clients of a run batch as one batched program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from bench.train.mapping.mapper import (
    Grid,
    Hook,
    HookOf,
    Index,
    LocalWork,
    Mapper,
    SampleSource,
    WeightedRows,
    in_order,
    own,
)
from bench.train.mapping.packing import PackedWork
from bench.train.trace.capture import Captured


class Stack(Mapper):
    """A mapper that stacks grids into tensors and maps hooks with ``vmap``.

    All clients must have models of the same shapes. Clients with fewer samples or steps than others are padded.
    """

    path = "stack"
    gathered = 2**26  # bytes of a round's mini-batches that are gathered at a time

    def grid(self, axes: str, make: Callable[..., Any]) -> Grid:
        trees = [make(*index) for index in self.indices(axes)]
        shape = [self.sizes[axis] for axis in axes]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves).reshape(*shape, *leaves[0].shape), *trees)

    def map(self, name: str, hook: HookOf, axes: Sequence[str], *grids: Grid, over: str = "HSC") -> Grid:
        # Contiguous, so that one trace serves every call.
        arguments = pytree.tree_map(torch.Tensor.contiguous, grids)
        return self._capture((name, over), lambda: _vmapped(hook(0), axes, over), arguments)(*arguments)

    def train(
        self, name: str, step: HookOf, axes: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: SampleSource, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        packed = PackedWork.of(self.sizes, source, work)
        state, fixed = pytree.tree_map(own, state), pytree.tree_map(torch.Tensor.contiguous, tuple(grids))
        leaves: Sequence[Tensor]
        leaves, structure = pytree.tree_flatten(state)
        fixed_leaves = pytree.tree_leaves(fixed)
        for first, x, y in packed.chunks(self.gathered):
            for k in range(len(x)):
                step_inputs = packed.step(first + k, x[k], y[k])
                if first + k == 0:
                    captured = self._capture_step(name, step, axes, packed.ragged, (state, *fixed, *step_inputs))
                with torch.no_grad():
                    leaves = captured.flat(*leaves, *fixed_leaves, *step_inputs)
        return pytree.tree_unflatten(leaves, structure)

    def _capture_step(self, name: str, step: HookOf, axes: Sequence[str], ragged: bool, arguments: Any) -> Captured:
        def masked(state: Any, *rest: Any) -> Any:
            *others, active = rest
            after = step(0)(state, *others)
            # A client that has taken all its steps of the round keeps its state.
            return in_order(state, after, lambda old, new: torch.where(active, new, old) if ragged else new)

        axes = ["HSC", *axes, "SC", "SC", "SC", "SC", "", "SC"]
        return self._capture((name, ragged), lambda: _vmapped(masked, axes, "HSC"), arguments, iterated=True)

    def loss(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        weights: WeightedRows, size: int,
    ) -> Tensor:  # fmt: skip
        x, y, weight = self.weighted(source, weights)
        return self.map("loss", hook, [*axes, "SC", "SC", "SC"], *grids, x, y, weight)

    def weighted(self, source: SampleSource, weights: WeightedRows) -> tuple[Grid, Grid, Grid]:
        width = max(len(rows) for rows, _ in weights.values())

        def padded(s: int, c: int) -> tuple[Tensor, Tensor, Tensor]:
            rows, weight = weights[s, c]
            x, y = source.samples[s, c][torch.cat([rows, rows.new_zeros(width - len(rows))])]
            return source.model_inputs(x), y, torch.cat([weight, weight.new_zeros(width - len(rows))])

        x, y, weight = self.grid("SC", padded)
        return x, y, weight

    def outputs(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        width = max(len(x) for x in inputs.values())
        example = next(iter(inputs.values()))
        # Inputs that all seeds share are stacked once.
        input_axes = "C" if all(x is inputs[0, c] for (_, c), x in inputs.items()) else "SC"

        def padded(*index: int) -> Tensor:
            x = inputs.get((0, *index)[-2:], example[:0])
            return source.model_inputs(torch.cat([x, x.new_zeros(width - len(x), *x.shape[1:])]))

        output = self.map("outputs", hook, [*axes, input_axes], *grids, self.grid(input_axes, padded))
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
        def select(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(mask.reshape(*mask.shape, *[1] * (a.dim() - 3)), a, b)

        return pytree.tree_map(select, new, old)

    def at(self, grid: Grid, index: Index) -> Any:
        return pytree.tree_map(lambda leaf: leaf[index], grid)

    def settings(self, grid: Grid, selected: Sequence[int]) -> Grid:
        return pytree.tree_map(lambda leaf: leaf[list(selected)], grid)


def _vmapped(hook: Hook, axes: Sequence[str], over: str) -> Hook:
    for axis in reversed(over):
        hook = vmap(hook, in_dims=tuple(0 if axis in each else None for each in axes))
    return hook
