"""Small federations with unequal clients, and the engine's mini-batches for the reference loops."""

from __future__ import annotations

import dataclasses

import torch

from bench.rng import derive
from bench.types import Budget, Client, Federation, Split
from tests.reference.common import Site
from tests.train.plain_schedule import batch_size, mini_batches, split

SIZES = (23, 11, 6)


def federation(task: str = "binary", features: int = 13, sizes: tuple[int, ...] = SIZES, test: int = 9) -> Federation:
    """Return three clients of unequal sizes with shifted features, on which the targets depend."""
    generator = torch.Generator().manual_seed(3)
    direction = torch.randn(features, 3, generator=generator)

    def drawn(n: int, shift: float) -> Split:
        x = torch.randn(n, features, generator=generator) + shift
        noisy = x @ direction + torch.randn(n, 3, generator=generator)
        return Split(x, (noisy[:, :1] > 0).float() if task == "binary" else noisy.argmax(1))

    clients = tuple(Client(f"site {c}", drawn(n, 0.3 * c), drawn(test + c, 0.3 * c)) for c, n in enumerate(sizes))
    return Federation("toy", clients, task, classes=2 if task == "binary" else 3)


def sites(fed: Federation, budget: Budget, seed: int, tuning: int = 0) -> list[Site]:
    """Return every client's mini-batches, equal to the engine's; ``tuning`` is the number of epochs of local tuning."""
    tuned = dataclasses.replace(budget, local_steps=None, local_epochs=tuning) if tuning else None
    made = []
    for c, client in enumerate(fed.clients):
        x, y = client.train.x, client.train.y
        train, held_out = split(len(x), budget.validation, seed, c)
        rounds = [
            [(x[train[rows]], y[train[rows]]) for rows in mini_batches(budget, len(train), seed, c, round_)]
            for round_ in range(budget.rounds)
        ]
        size = batch_size(budget, len(held_out))
        val = [(x[rows], y[rows]) for rows in torch.split(held_out, size)]
        after = [
            [(x[train[rows]], y[train[rows]]) for rows in mini_batches(tuned, len(train), seed, c, ~round_)]
            for round_ in range(budget.rounds if tuned else 0)
        ]
        keys = [derive("round", seed, c, round_) for round_ in range(budget.rounds)]
        made.append(Site(rounds, len(train), val, len(held_out), after, keys))
    return made
