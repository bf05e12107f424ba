"""Samples that differ in size, without a collate_fn."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(row + 1, 3), torch.tensor([float(row % 2)])


FedClass = fed_class(make, ((3, 2), (2, 2)))
