"""Random orders of the samples of many clients at once."""

from __future__ import annotations

import torch
from torch import Tensor

from bench.rng import bits
from bench.train.batching.groups import groups
from bench.train.batching.ragged import starts

TOGETHER = 2**22  # numbers that are sorted at once


def permutations(keys: Tensor, sizes: Tensor) -> Tensor:
    """Return ``permutation(key, size)`` of every key and size (n,), one after another: (sum of sizes,)."""
    orders, first = torch.empty(int(sizes.sum()), dtype=torch.int64), starts(sizes)
    most = max(1, TOGETHER // max(1, int(sizes.max())))
    for rows in groups(sizes, most):
        size = sizes[rows, None]
        place = torch.arange(int(size.max()))
        inside = place < size
        # Places beyond the size come last: they have the largest number, and equal numbers keep their order.
        drawn = torch.where(inside, bits(keys[rows, None], place), 2**63 - 1)
        order = drawn.argsort(dim=1, stable=True)
        orders[(first[rows, None] + place)[inside]] = order[inside]
    return orders
