"""Splits and mini-batches of one client at a time: the definition of the engine's schedules, which the tests compare.

The reference loops train on these mini-batches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bench.rng import derive, permutation
from bench.types import Budget


def split(samples: int, validation: float, seed: int, client: int) -> tuple[Tensor, Tensor]:
    """Return the rows of training and of validation samples; ``validation`` is the share held out."""
    validated = math.floor(samples * validation + 1e-9)
    order = permutation(derive("validation", seed, client), samples)
    return order[validated:].sort().values, order[:validated].sort().values


def batch_size(budget: Budget, samples: int) -> int:
    """Return the size of a full mini-batch of a client with ``samples`` training samples."""
    if budget.batches is not None:
        return samples // budget.batches
    return samples if budget.batch_size == "full" else min(budget.batch_size, samples)


def batch_sizes(budget: Budget, samples: int) -> list[int]:
    """Return the sizes of the mini-batches of one epoch, in order."""
    size = batch_size(budget, samples)
    full, rest = divmod(samples, size)
    if budget.batches is not None:
        return [size] * budget.batches
    if not rest or budget.last_batch == "drop":
        return [size] * full
    return [*[size] * full, rest] if budget.last_batch == "keep" else [*[size] * (full - 1), size + rest]


def local_steps(budget: Budget, samples: int) -> int:
    """Return how many local steps a client takes in one round."""
    if budget.local_steps is not None:
        return budget.local_steps
    assert budget.local_epochs is not None
    return budget.local_epochs * len(batch_sizes(budget, samples))


def mini_batches(budget: Budget, samples: int, seed: int, client: int, round_: int) -> list[Tensor]:
    """Return the mini-batches of one round, one per local step, as positions among the client's training samples."""
    sizes, wanted = batch_sizes(budget, samples), local_steps(budget, samples)
    batches: list[Tensor] = []
    if budget.batches is not None:
        for step in range(round_ * wanted, (round_ + 1) * wanted):
            epoch, place = divmod(step, budget.batches)
            order = permutation(derive("aligned batches", seed, client, epoch), samples)
            batches.append(order[place * sizes[0] : (place + 1) * sizes[0]])
        return batches
    epoch = 0
    while len(batches) < wanted:
        order = permutation(derive("batches", seed, client, round_, epoch), samples)
        batches.extend(torch.split(order[: sum(sizes)], sizes))
        epoch += 1
    return batches[:wanted]


def mean_over_batches(samples: int, size: int) -> Tensor:
    """Return weights (n,) that turn a sum over samples into the unweighted mean over mini-batches of their mean."""
    if not samples:
        return torch.empty(0)
    sizes = [len(part) for part in torch.split(torch.arange(samples), size)]
    return torch.cat([torch.full((each,), 1 / (len(sizes) * each)) for each in sizes])
