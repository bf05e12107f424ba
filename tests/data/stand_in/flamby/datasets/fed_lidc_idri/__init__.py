"""A task whose data were never downloaded."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    raise ValueError("The dataset was not downloaded;\n run the download script")


FedClass = fed_class(make, ((1, 1), (1, 1)))
