"""The samples of a client."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bench.types import Split


class Samples:
    """What a client trains and is validated on: parts one after another, each where it lies in memory.

    ``samples[rows]`` are inputs and targets of ``rows``, a tensor of any shape, counted over all parts: those for
    training first, then those the data set has for validation (None: validation rows are held out of the others).
    """

    def __init__(self, training: Sequence[Split], validation: Sequence[Split] | None = None) -> None:
        self.parts = (*training, *(validation or ()))
        self.training = sum(map(len, training))
        self.validation = None if validation is None else sum(map(len, validation))

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return _taken([part.x for part in self.parts], rows), _taken([part.y for part in self.parts], rows)

    @property
    def input_bytes(self) -> int:
        """How large one stored input is."""
        x = self.parts[0].x
        return x[0].numel() * x.element_size()


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
