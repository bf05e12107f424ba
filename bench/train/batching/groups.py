"""Clients of similar sizes in groups, so that little is padded where they are computed together.

A group is padded to its longest client. Launching an operation takes as long for a few clients as for one, so that a
federation of few clients stays in one group.
"""

from __future__ import annotations

import torch
from torch import Tensor

PADDING = 0.15  # of the work of a group; short last mini-batches add to it, together at most a quarter of all work
FEW = 32  # clients that are computed together, however different they are


def groups(lengths: Tensor, most: int) -> list[Tensor]:
    """Return the positions in ``lengths`` (n,) in groups of at most ``most``; within a group they ascend.

    Clients are sorted by length, the longest first. A group ends before its padding would exceed the share PADDING of
    its lengths. There is one group for up to FEW clients.
    """
    count = len(lengths)
    if count <= min(FEW, most):
        return [torch.arange(count)]
    order = lengths.argsort(descending=True, stable=True)
    total = torch.cat([torch.zeros(1, dtype=torch.int64), lengths[order].cumsum(0)])
    found, first = [], 0
    while first < count:
        last = min(first + most, count)
        useful = total[first + 1 : last + 1] - total[first]
        # The padding of the first, first two, ... clients of the group never shrinks again once it is too much.
        fits = lengths[order[first]] * torch.arange(1, last - first + 1) <= (1 + PADDING) * useful
        size = int(fits.sum())
        found.append(order[first : first + size].sort().values)
        first += size
    return found
