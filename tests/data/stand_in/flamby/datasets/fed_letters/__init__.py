"""A multi-class task that exports no FedClass."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((1, 2, 2), float(row)), torch.tensor(row % 3)


FedLetters = fed_class(make, ((4, 2), (3, 3)))
