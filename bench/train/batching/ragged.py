"""Sequences of different lengths, one for every seed and client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """One sequence for every seed and client: all values one after another, in the order of ``lengths``."""

    values: Tensor  # (sum of lengths,)
    lengths: Tensor  # (S, C)

    @cached_property
    def first(self) -> Tensor:
        """The place in ``values`` where each sequence begins, (S, C)."""
        return starts(self.lengths)

    def __getitem__(self, index: tuple[int, ...]) -> Tensor:
        """Return the sequence of one (seed, client)."""
        first = int(self.first[index])
        return self.values[first : first + int(self.lengths[index])]

    def padded(self, seeds: Sequence[int], clients: Tensor) -> Tensor:
        """Return the sequences of some seeds and clients, filled with 0 to (seeds, clients, longest)."""
        lengths = self.lengths[list(seeds)][:, clients, None]
        counter = torch.arange(int(lengths.max()))
        return self.taken(seeds, clients, counter, counter < lengths)

    def taken(self, seeds: Sequence[int], clients: Tensor, places: Tensor, inside: Tensor) -> Tensor:
        """Return the values at ``places`` (..., seeds, clients, n) of each sequence where ``inside``, 0 elsewhere."""
        first = self.first[list(seeds)][:, clients, None]
        values = self.values if len(self.values) else self.values.new_zeros(1)
        return torch.where(inside, values[(first + places) * inside], 0)


def starts(lengths: Tensor) -> Tensor:
    """Return where sequences of these lengths begin that follow one another."""
    return lengths.flatten().cumsum(0).view_as(lengths) - lengths


def places(lengths: Tensor) -> Tensor:
    """Return, for sequences that follow one another, the place of every value in its own sequence."""
    each = lengths.flatten()
    return torch.arange(int(each.sum())) - starts(each).repeat_interleave(each)
