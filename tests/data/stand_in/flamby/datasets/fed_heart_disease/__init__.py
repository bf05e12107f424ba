"""A binary task: features (13,), targets (1,) float."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((13,), 100.0 * center + 10.0 * train + row), torch.tensor([float(row % 2)])


FedClass = FedHeartDisease = fed_class(make, ((5, 3), (4, 2)))
