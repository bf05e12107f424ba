"""The samples of a client, of all clients pooled, or of many clients side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from bench.train.batching.ragged import starts
from bench.types import Split


class Samples:
    """Training samples, then validation samples that the data set fixes, without copying them into one tensor.

    ``samples[rows]`` returns inputs and targets of ``rows``, a tensor of any shape that counts over all parts. With
    ``validation`` None, validation rows are held out of the training samples.
    """

    def __init__(self, training: Sequence[Split], validation: Sequence[Split] | None = None) -> None:
        self.parts = (*training, *(validation or ()))
        self.training = sum(map(len, training))
        self.validation = None if validation is None else sum(map(len, validation))

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return _taken([part.x for part in self.parts], rows), _taken([part.y for part in self.parts], rows)


class Shelf:
    """The samples of many seeds and clients (one row for every seed), read together.

    They are copied into one tensor first, which makes reading independent of the number of clients. More than ``limit``
    bytes stay where they are, for example in a mapped file, and are read client by client. Seeds that share data share
    the objects, and their samples are stored once.
    """

    def __init__(self, samples: Sequence[Sequence[Samples]], limit: int = 2**30) -> None:
        self.samples = samples
        self._distinct = {id(each): each for row in samples for each in row}
        parts = [part for each in self._distinct.values() for part in each.parts]
        self._copied = sum(part.x.numel() * part.x.element_size() for part in parts) <= limit

    @property
    def input_bytes(self) -> int:
        """The size of one stored input."""
        x = self.samples[0][0].parts[0].x
        return x[0].numel() * x.element_size()

    def read(self, rows: Tensor, seeds: Sequence[int], clients: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of ``rows`` (..., seeds, clients, n), counted for each client."""
        if self._copied:
            x, y, first = self._joined
            places = first[list(seeds)][:, clients, None] + rows
            return x[places], y[places]
        by_seed = [
            [self.samples[s][c][own] for c, own in zip(clients.tolist(), of_seed.unbind(-2), strict=True)]
            for s, of_seed in zip(seeds, rows.unbind(-3), strict=True)
        ]
        x, y = (
            torch.stack([torch.stack([pair[part] for pair in row], rows.dim() - 3) for row in by_seed], rows.dim() - 3)
            for part in (0, 1)
        )
        return x, y

    @cached_property
    def _joined(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return all inputs, all targets, and the place of each client's first sample (S, C)."""
        distinct = self._distinct.values()
        sizes = torch.tensor([sum(map(len, each.parts)) for each in distinct])
        first = dict(zip(self._distinct, starts(sizes).tolist(), strict=True))
        parts = [part for each in distinct for part in each.parts]
        places = torch.tensor([[first[id(each)] for each in row] for row in self.samples])
        return torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]), places


def _taken(parts: Sequence[Tensor], rows: Tensor) -> Tensor:
    if len(parts) == 1:
        return parts[0][rows]
    taken, first = parts[0].new_empty(*rows.shape, *parts[0].shape[1:]), 0
    for part in parts:
        inside = (rows >= first) & (rows < first + len(part))
        if inside.all():
            return part[rows - first]
        taken[inside] = part[rows[inside] - first]
        first += len(part)
    return taken
