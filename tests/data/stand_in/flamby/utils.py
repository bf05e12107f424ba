"""Like FLamby's, importing this seeds torch for everybody."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.data import Dataset

torch.manual_seed(42)
Sample = tuple[torch.Tensor, torch.Tensor]


def fed_class(make: Callable[[int, bool, int], Sample], sizes: tuple[tuple[int, int], ...]) -> type[Dataset]:
    """A data set class as FLamby has one per task: centre c holds ``sizes[c]`` training and test samples."""

    class FedToy(Dataset):
        def __init__(self, center: int = 0, train: bool = True, pooled: bool = False) -> None:
            centers = range(len(sizes)) if pooled else [center]
            self.keys = [(each, train, row) for each in centers for row in range(sizes[each][0 if train else 1])]

        def __len__(self) -> int:
            return len(self.keys)

        def __getitem__(self, index: int) -> Sample:
            return make(*self.keys[index])

    return FedToy
