"""A survival task: targets are an event and a time."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(39), torch.tensor([1.0, 12.5])


FedClass = fed_class(make, ((3, 2), (2, 2)))
