"""All runs and clients of a run batch as one batched program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from bench.train.batching.groups import FEW, groups
from bench.train.batching.local_steps import LocalSteps, PackedSteps
from bench.train.mapping.mapper import (
    Grid,
    Hook,
    HookOf,
    Index,
    Mapper,
    SampleSource,
    WeightedRows,
    in_order,
)
from bench.train.trace.capture import Captured


class Stack(Mapper):
    """A mapper that stacks grids into tensors and maps hooks with ``vmap``.

    All clients must have models of the same shapes. Clients with fewer samples or steps than others are padded.
    """

    path = "stack"
    gathered = 2**26  # bytes of a round's mini-batches that are gathered at a time
    together = 2**20  # numbers of the clients' states that are trained, or evaluated, at a time

    def spread(self, axes: str, tree: Any) -> Grid:
        return tree

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
        source: SampleSource, work: LocalSteps,
    ) -> Grid:  # fmt: skip
        trained = pytree.tree_map(lambda leaf: torch.empty_like(leaf, memory_format=torch.contiguous_format), state)
        for clients in self._groups(work.samples[self.clients], state):
            packed = work.of(range(self.sizes["S"]), self.clients[clients])
            before = pytree.tree_map(lambda leaf: leaf.index_select(2, clients), state)  # noqa: B023
            after = self._train(name, step, axes, before, self._of(grids, axes, clients), source, packed)
            pytree.tree_map(lambda all_, own: all_.index_copy_(2, clients, own), trained, after)  # noqa: B023
        return trained

    def _train(
        self, name: str, step: HookOf, axes: Sequence[str], state: Grid, grids: Sequence[Grid],
        source: SampleSource, packed: PackedSteps,
    ) -> Grid:  # fmt: skip
        """Train the clients of ``packed``; the grids are theirs, and ``state`` is overwritten."""
        leaves: Sequence[Tensor]
        leaves, structure = pytree.tree_flatten(state)
        fixed_leaves = pytree.tree_leaves(grids)
        for first, x, y in packed.chunks(self.gathered, source.model_inputs):
            for k in range(len(x)):
                step_inputs = packed.step(first + k, x[k], y[k])
                if first + k == 0:
                    captured = self._capture_step(name, step, axes, packed.ragged, (state, *grids, *step_inputs))
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
        total = torch.zeros([self.sizes[axis] for axis in "HSC"])
        lengths = weights.rows.lengths[:, self.clients].amax(0)
        for clients in self._groups(lengths, grids[-1]):
            if not bool(lengths[clients].any()):
                continue  # no samples, whose loss is 0
            samples, own_grids = self._weighted(source, weights, clients), self._of(grids, axes, clients)
            total[:, :, clients] = self.map("loss", hook, [*axes, "SC", "SC", "SC"], *own_grids, *samples)
        return total

    def weighted(self, source: SampleSource, weights: WeightedRows) -> tuple[Grid, Grid, Grid]:
        return self._weighted(source, weights, torch.arange(self.sizes["C"]))

    def _weighted(self, source: SampleSource, weights: WeightedRows, clients: Tensor) -> tuple[Grid, Grid, Grid]:
        """Return model inputs, targets and weights of some clients."""
        seeds, clients = range(self.sizes["S"]), self.clients[clients]
        rows, weight = (each.padded(seeds, clients) for each in weights)
        x, y = source.data.shelf.read(rows, seeds, clients)
        return _model_inputs(source, x), y, weight

    def outputs(
        self, hook: HookOf, axes: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        inputs: Mapping[Index, Tensor], size: int,
    ) -> dict[Index, Tensor]:  # fmt: skip
        # Inputs that all seeds share are stacked once.
        shared = all(x is inputs[0, c] for (_, c), x in inputs.items())
        input_axes, seeds = ("C", range(1)) if shared else ("SC", range(self.sizes["S"]))
        none = next(iter(inputs.values()))[:0]
        samples = [[inputs.get((s, c), none) for c in range(self.sizes["C"])] for s in seeds]
        lengths = torch.tensor([[len(x) for x in row] for row in samples])
        found: dict[Index, Tensor] = {}
        for clients in self._groups(lengths.amax(0).clamp(min=1), grids[-1]):
            numbers, own_lengths = clients.tolist(), lengths[:, clients, None]
            inside = torch.arange(int(own_lengths.max())) < own_lengths
            padded = none.new_zeros(*inside.shape, *none.shape[1:])
            padded[inside] = torch.cat([samples[s][c] for s in seeds for c in numbers])
            x = _model_inputs(source, padded)
            own_grids = self._of(grids, axes, clients)
            output = self.map("outputs", hook, [*axes, input_axes], *own_grids, x[0] if shared else x)
            for s in range(self.sizes["S"]):
                for place, c in enumerate(numbers):
                    if (s, c) in inputs:
                        found[s, c] = output[:, s, place, : len(inputs[s, c])]
        return found

    def _groups(self, lengths: Tensor, state: Grid) -> list[Tensor]:
        """Return the clients, by position, in groups of similar ``lengths`` whose states fit together."""
        numbers = sum(leaf.numel() for leaf in pytree.tree_leaves(state)) // self.sizes["C"]
        return groups(lengths, max(FEW, self.together // max(1, numbers)))

    def _of(self, grids: Sequence[Grid], axes: Sequence[str], clients: Tensor) -> tuple[Grid, ...]:
        """Return the part of each grid that belongs to some clients, by position."""

        def own(grid: Grid, place: int) -> Grid:
            if place < 0 or len(clients) == self.sizes["C"]:
                return pytree.tree_map(torch.Tensor.contiguous, grid)
            return pytree.tree_map(lambda leaf: leaf.index_select(place, clients), grid)

        return tuple(own(grid, each.find("C")) for grid, each in zip(grids, axes, strict=True))

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

    def part(self, grid: Grid, settings: Sequence[int], seeds: Sequence[int]) -> Grid:
        return pytree.tree_map(lambda leaf: leaf[torch.tensor(settings)[:, None], torch.tensor(seeds)], grid)


def _model_inputs(source: SampleSource, x: Tensor) -> Tensor:
    """Return stored inputs (S, C, n, ...) as model inputs."""
    return source.model_inputs(x.flatten(0, 2)).unflatten(0, x.shape[:3])


def _vmapped(hook: Hook, axes: Sequence[str], over: str) -> Hook:
    for axis in reversed(over):
        hook = vmap(hook, in_dims=tuple(0 if axis in each else None for each in axes))
    return hook
