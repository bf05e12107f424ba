"""A round's mini-batches of all seeds and clients as padded tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.train.mapping.mapper import Index, LocalWork, SampleSource


@dataclass(frozen=True)
class PackedWork:
    """The local work of all seeds and clients, padded to the most steps and the largest mini-batch."""

    source: SampleSource
    rows: Tensor  # rows of each client's samples, (steps, S, C, b)
    weight: Tensor  # weights in the mini-batch's mean, 0 for padding, (steps, S, C, b)
    keys: Tensor  # random keys, (steps, S, C)
    active: Tensor  # whether the client takes this step, (steps, S, C)
    ragged: bool  # whether clients take different numbers of steps

    @classmethod
    def of(cls, sizes: Mapping[str, int], source: SampleSource, work: Mapping[Index, LocalWork]) -> PackedWork:
        """Pack ``work``, which is by (seed, client)."""
        steps = max(len(each.batches) for each in work.values())
        width = max(len(batch) for each in work.values() for batch in each.batches)
        shape = (steps, sizes["S"], sizes["C"])
        rows = torch.zeros(*shape, width, dtype=torch.int64)
        weight = torch.zeros(*shape, width)
        keys = torch.zeros(shape, dtype=torch.int64)
        active = torch.zeros(shape, dtype=torch.bool)
        for (s, c), each in work.items():
            lengths = torch.tensor([len(batch) for batch in each.batches])
            filled = torch.arange(width) < lengths[:, None]
            rows[: len(lengths), s, c][filled] = torch.cat(list(each.batches))
            weight[: len(lengths), s, c] = filled / lengths[:, None]
            keys[: len(lengths), s, c] = each.keys
            active[: len(lengths), s, c] = True
        return cls(source, rows, weight, keys, active, not bool(active.all()))

    def chunks(self, limit: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the first step, inputs and targets of as many consecutive steps as fit into ``limit`` bytes."""
        together = max(1, limit // (self.rows[0].numel() * self.source.samples[0, 0].input_bytes))
        for first in range(0, len(self.rows), together):
            rows, keys = self.rows[first : first + together], self.keys[first : first + together]
            pairs = [self._gathered(c, rows[:, :, c]) for c in range(rows.shape[2])]
            x, y = (torch.stack(parts, 2) for parts in zip(*pairs, strict=True))
            yield first, self.source.model_inputs(x, keys), y

    def _gathered(self, c: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a client for ``rows`` (steps, S, b)."""
        samples = [self.source.samples[s, c] for s in range(rows.shape[1])]
        if all(each is samples[0] for each in samples):
            return samples[0][rows]
        x, y = zip(*(each[rows[:, s]] for s, each in enumerate(samples)), strict=True)
        return torch.stack(x, 1), torch.stack(y, 1)

    def step(self, k: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of step ``k``: x, y, weight, key, number of the step, and whether a client takes it."""
        return x, y, self.weight[k], self.keys[k], torch.tensor(k), self.active[k]
