"""Mini-batches in the order in which a training script in torch draws them.

Such a script seeds torch, builds the clients' models and loops over epochs. In each epoch it starts a shuffling
DataLoader for every client, reads one mini-batch of each client in turn, and then shuffles every client's validation
samples. Everything draws from torch's global generator. The same seed therefore gives the same weights and mini-batches
only if everything is drawn in the same order. Source: the released code of Global Layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from bench.train.batching.schedule import cut
from bench.types import Budget


class Loaders:
    """The mini-batches of one seed, as positions among each client's training samples.

    ``generator`` is the state of torch's generator at the start of the first epoch; ``training`` and ``validation`` are
    the clients' numbers of samples. The budget gives the number of mini-batches in an epoch.
    """

    def __init__(self, generator: Tensor, training: Sequence[int], validation: Sequence[int], budget: Budget) -> None:
        self._begin = generator
        mini_batch = cut(budget, torch.tensor(training))
        self._sizes = list(zip(mini_batch.size.tolist(), training, validation, strict=True))
        self._batches = int(mini_batch.steps.min())
        self._generator, self._epochs = generator, 0
        self._drawn: list[tuple[Tensor, ...]] = []

    def epoch(self, number: int) -> list[tuple[Tensor, ...]]:
        """Return the mini-batches of all clients in an epoch, after drawing those of all earlier epochs."""
        if number < self._epochs - 1:
            self._generator, self._epochs = self._begin, 0
        while self._epochs <= number:
            self._draw()
        return self._drawn

    def _draw(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._generator)
            training = [_shuffled(n, size) for size, n, _ in self._sizes]
            together = []
            for _ in range(self._batches):
                together.append([next(loader) for loader in training])
                torch.randperm(len(training))  # the order of the clients; it decides nothing else
            for size, _, held_out in self._sizes:
                if held_out:
                    next(_shuffled(held_out, size, keep_last=True))
            self._generator, self._epochs = torch.get_rng_state(), self._epochs + 1
        self._drawn = list(zip(*together, strict=True))


def _shuffled(samples: int, size: int, *, keep_last: bool = False) -> Iterator[Tensor]:
    loader: DataLoader[Tensor] = DataLoader(
        range(samples),  # type: ignore[arg-type]  # any sequence will do
        size, shuffle=True, drop_last=not keep_last,
    )  # fmt: skip
    return iter(loader)
