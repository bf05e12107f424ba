"""The samples of a client, or of all clients pooled."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

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

    @property
    def input_bytes(self) -> int:
        """The size of one stored input."""
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
