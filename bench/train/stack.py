"""All runs and clients of a run batch as one batched program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from bench.train.mapper import Grid, Hook, HookOf, Index, LocalWork, Mapper, SampleSource, in_order, own
from bench.train.trace.capture import Captured


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
        source: SampleSource, work: Mapping[Index, LocalWork],
    ) -> Grid:  # fmt: skip
        packed = _Packed.of(self.sizes, source, work)
        state, fixed = pytree.tree_map(own, state), pytree.tree_map(torch.Tensor.contiguous, tuple(grids))
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
            return in_order(state, after, lambda old, new: torch.where(active, new, old) if ragged else new)

        kinds = ["HSC", *kinds, "SC", "SC", "SC", "SC", "", "SC"]
        return self._capture((name, ragged), lambda: _vmapped(masked, kinds, "HSC"), arguments, onward=True)

    def loss(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: SampleSource,
        weights: Mapping[Index, tuple[Tensor, Tensor]], size: int,
    ) -> Tensor:  # fmt: skip
        x, y, weight = self.weighted(source, weights)
        return self.map("loss", hook, [*kinds, "SC", "SC", "SC"], *grids, x, y, weight)

    def weighted(self, source: SampleSource, weights: Mapping[Index, tuple[Tensor, Tensor]]) -> tuple[Grid, Grid, Grid]:
        width = max(len(rows) for rows, _ in weights.values())

        def padded(s: int, c: int) -> tuple[Tensor, Tensor, Tensor]:
            rows, weight = weights[s, c]
            x, y = source.samples[s, c][torch.cat([rows, rows.new_zeros(width - len(rows))])]
            return source.look(x), y, torch.cat([weight, weight.new_zeros(width - len(rows))])

        x, y, weight = self.grid("SC", padded)
        return x, y, weight

    def outputs(
        self, hook: HookOf, kinds: Sequence[str], grids: Sequence[Grid], source: SampleSource,
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

    source: SampleSource
    rows: Tensor  # among each client's samples, (..., b)
    weight: Tensor  # (..., b), 0 for padding
    keys: Tensor
    active: Tensor  # whether the client still takes this step
    ragged: bool

    @classmethod
    def of(cls, sizes: Mapping[str, int], source: SampleSource, work: Mapping[Index, LocalWork]) -> _Packed:
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


def _vmapped(hook: Hook, kinds: Sequence[str], over: str) -> Hook:
    for axis in reversed(over):
        hook = vmap(hook, in_dims=tuple(0 if axis in kind else None for kind in kinds))
    return hook
