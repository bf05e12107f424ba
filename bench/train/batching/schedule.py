"""Which samples a client sees, and in which order (FENDA-FL sections 3.3 and 4, and its code's loaders).

A client's training samples are split once per seed into training and validation. In every round the training
samples are shuffled afresh and cut into mini-batches; the short last one is kept; when the round wants more local
steps than there are batches, the samples are shuffled again. Nothing here depends on hyper-parameters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bench.rng import derive, permutation
from bench.types import Budget, SpecError


def split(samples: int, validation: float, seed: int, client: int) -> tuple[Tensor, Tensor]:
    """Row numbers of the training and the validation samples; ``validation`` is the share held out."""
    validated = held_out(samples, validation)
    order = permutation(derive("validation", seed, client), samples)
    return order[validated:].sort().values, order[:validated].sort().values


def held_out(samples: int, validation: float) -> int:
    """How many of a client's samples are the share ``validation``, rounded down; a share that floats miss is met."""
    return math.floor(samples * validation + 1e-9)


def batch_size(budget: Budget, samples: int) -> int:
    """The size of a full mini-batch of a client with so many training samples."""
    if budget.batches is not None:
        if samples < budget.batches:
            raise SpecError(f"batches = {budget.batches}: a client has {samples} training samples; give fewer batches")
        return samples // budget.batches
    return samples if budget.batch_size == "full" else min(budget.batch_size, samples)


def local_steps(budget: Budget, samples: int) -> int:
    """How many local steps a client takes in one round."""
    if budget.local_steps is not None:
        return budget.local_steps
    assert budget.local_epochs is not None
    return budget.local_epochs * (budget.batches or math.ceil(samples / batch_size(budget, samples)))


def mini_batches(budget: Budget, samples: int, seed: int, client: int, round_: int) -> list[Tensor]:
    """The mini-batches of one round, as positions among the client's training samples, one per local step."""
    if budget.batches is not None:
        return _aligned(budget, samples, seed, client, round_)
    size, wanted = batch_size(budget, samples), local_steps(budget, samples)
    batches: list[Tensor] = []
    epoch = 0
    while len(batches) < wanted:
        order = permutation(derive("batches", seed, client, round_, epoch), samples)
        batches.extend(torch.split(order, size))
        epoch += 1
    return batches[:wanted]


def _aligned(budget: Budget, samples: int, seed: int, client: int, round_: int) -> list[Tensor]:
    """The same number of mini-batches an epoch for every client; an epoch runs on over rounds shorter than it.

    Global Layers, section 3: with one local step a round the clients meet after every batch.
    """
    assert budget.batches is not None
    size, wanted = batch_size(budget, samples), local_steps(budget, samples)
    batches = []
    for step in range(round_ * wanted, (round_ + 1) * wanted):
        epoch, place = divmod(step, budget.batches)
        order = permutation(derive("aligned batches", seed, client, epoch), samples)
        batches.append(order[place * size : (place + 1) * size])
    return batches


def mean_over_batches(samples: int, size: int) -> Tensor:
    """Weights (n,) that turn a sum over samples into the unweighted mean over batches of their mean.

    This is how FENDA-FL's validation loss is averaged: the short last batch counts as much as a full one.
    """
    if not samples:
        return torch.empty(0)
    sizes = [len(part) for part in torch.split(torch.arange(samples), size)]
    return torch.cat([torch.full((each,), 1 / (len(sizes) * each)) for each in sizes])
