"""The local steps of one round, packed for some seeds and clients at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bench.rng import bits, keys
from bench.train.batching import schedule
from bench.train.batching.client_data import ClientData
from bench.train.batching.torch_order import Loaders
from bench.types import Budget

ModelInputs = Callable[[Tensor, Tensor], Tensor]  # (stored inputs, keys of the local steps) -> model inputs


@dataclass(frozen=True)
class LocalSteps:
    """The local steps of all seeds and clients in one round, or in the local tuning after it.

    With ``loaders``, those of every seed, mini-batches are drawn in the order of a torch script.
    """

    data: ClientData
    budget: Budget
    round: int
    tuning: bool
    loaders: Sequence[Loaders] = ()

    @cached_property
    def samples(self) -> Tensor:
        """The number of samples of each client's mini-batches, (C,), the most of any seed."""
        cut = schedule.cut(self.budget, self.data.counts[0])
        return (cut.steps * cut.size).amax(0)

    def of(self, seeds: Sequence[int], clients: Tensor) -> PackedSteps:
        """Return the steps of some seeds and clients, by number."""
        data, names = self.data, clients.tolist()
        positions, sizes = self._positions(seeds, names)
        inside = torch.arange(positions.shape[-1]) < sizes[..., None]
        rows = data.splits[0].taken(seeds, clients, positions, inside)
        pairs = [(data.seeds[s], c) for s in seeds for c in names]
        of_seed, of_client = zip(*pairs, strict=True)
        key = keys("tuning" if self.tuning else "local steps", of_seed, of_client, [self.round] * len(pairs))
        step_keys = bits(key.view(len(seeds), len(names)), torch.arange(len(rows))[:, None, None])
        return PackedSteps(data, seeds, clients, rows, sizes, step_keys)

    def _positions(self, seeds: Sequence[int], clients: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return positions among each client's training samples (steps, S, C, b), and sizes (steps, S, C)."""
        if self.loaders:
            drawn = [[self.loaders[s].epoch(self.round)[c] for c in clients] for s in seeds]
            sizes = torch.tensor([[[len(each) for each in own] for own in row] for row in drawn]).permute(2, 0, 1)
            positions = torch.zeros(*sizes.shape, int(sizes.max()), dtype=torch.int64)
            for s, row in enumerate(drawn):
                for c, own in enumerate(row):
                    positions[:, s, c, : len(own[0])] = torch.stack(own)
            return positions, sizes
        counts = self.data.counts[0][list(seeds)][:, list(clients)]
        # Tuning after a round shuffles in another order than the round did.
        round_ = ~self.round if self.tuning else self.round
        return schedule.mini_batches(self.budget, counts, [self.data.seeds[s] for s in seeds], clients, round_)


@dataclass(frozen=True)
class PackedSteps:
    """The local steps of some seeds and clients, padded to the most steps and the largest mini-batch."""

    data: ClientData
    seeds: Sequence[int]
    clients: Tensor  # (g,)
    rows: Tensor  # rows of each client's samples, (steps, S, g, b)
    sizes: Tensor  # sizes of the mini-batches, 0 where the client takes no step, (steps, S, g)
    keys: Tensor  # random keys, (steps, S, g)

    @cached_property
    def weight(self) -> Tensor:
        """Weights of the samples in the mini-batch's mean, 0 for padding, (steps, S, g, b)."""
        sizes = self.sizes[..., None]
        return (torch.arange(self.rows.shape[-1]) < sizes) / sizes.clamp(min=1)

    @cached_property
    def active(self) -> Tensor:
        """Whether the client takes this step, (steps, S, g)."""
        return self.sizes > 0

    @property
    def ragged(self) -> bool:
        """Whether clients take different numbers of steps."""
        return not bool(self.active.all())

    def batches(self, place: int = 0) -> list[Tensor]:
        """Return the rows of the mini-batches of the client at ``place``, with the first seed."""
        sizes = [size for size in self.sizes[:, 0, place].tolist() if size]
        return [rows[:size] for rows, size in zip(self.rows[:, 0, place], sizes, strict=False)]

    def chunks(self, limit: int, model_inputs: ModelInputs) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the first step, inputs and targets of as many consecutive steps as fit into ``limit`` bytes."""
        shelf = self.data.shelf
        together = max(1, limit // (self.rows[0].numel() * shelf.input_bytes))
        for first in range(0, len(self.rows), together):
            rows, keys = self.rows[first : first + together], self.keys[first : first + together]
            x, y = shelf.read(rows, self.seeds, self.clients)
            yield first, model_inputs(x, keys), y

    def step(self, k: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of step ``k``: x, y, weight, key, number of the step, and whether a client takes it."""
        return x, y, self.weight[k], self.keys[k], torch.tensor(k), self.active[k]
