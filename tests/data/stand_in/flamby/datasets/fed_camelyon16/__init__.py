"""A binary task of bags that differ in length, with a collate_fn that pads them."""

from __future__ import annotations

import torch

from flamby.utils import fed_class

NUM_CLIENTS = 2
BATCH_SIZE = 4


def make(center: int, train: bool, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(row + 1, 3), torch.tensor([float(row % 2)])


def collate_fn(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    bags = torch.zeros(len(samples), 6, 3)
    for bag, (x, _) in zip(bags, samples, strict=True):
        bag[: len(x)] = x
    return bags, torch.stack([y for _, y in samples])


FedClass = fed_class(make, ((3, 2), (2, 2)))
