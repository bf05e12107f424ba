"""Mini-batch schedules: which samples a client uses in each local step.

A client's samples are split once per seed into training and validation samples. In every round the training samples are
shuffled and cut into mini-batches. If a round has more local steps than mini-batches, the samples are shuffled again.
Nothing here depends on hyper-parameters. Source: FENDA-FL, sections 3.3 and 4, and the loaders of its code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bench.rng import derive, permutation
from bench.types import Budget, SpecError


def split(samples: int, validation: float, seed: int, client: int) -> tuple[Tensor, Tensor]:
    """Return the rows of training and of validation samples; ``validation`` is the share held out."""
    validated = held_out(samples, validation)
    order = permutation(derive("validation", seed, client), samples)
    return order[validated:].sort().values, order[:validated].sort().values


def held_out(samples: int, validation: float) -> int:
    """Return how many samples the share ``validation`` is, rounded down; 0.29 of 100 is 29 despite float rounding.

    Raises :class:`SpecError` if no sample is left.
    """
    validated = math.floor(samples * validation + 1e-9)
    if validated and validated == samples:
        raise SpecError(
            f"validation = {validation!r}: leaves a client with {samples} training samples none; give a smaller share"
        )
    return validated


def batch_size(budget: Budget, samples: int) -> int:
    """Return the size of a full mini-batch of a client with ``samples`` training samples."""
    if budget.batches is not None:
        if samples < budget.batches:
            raise SpecError(
                f"batches = {budget.batches}: a client has only {samples} training samples; give at most {samples}"
            )
        return samples // budget.batches
    return samples if budget.batch_size == "full" else min(budget.batch_size, samples)


def local_steps(budget: Budget, samples: int) -> int:
    """Return how many local steps a client takes in one round."""
    if budget.local_steps is not None:
        return budget.local_steps
    assert budget.local_epochs is not None
    return budget.local_epochs * len(batch_sizes(budget, samples))


def batch_sizes(budget: Budget, samples: int) -> list[int]:
    """Return the sizes of the mini-batches of one epoch, in order."""
    size = batch_size(budget, samples)
    full, rest = divmod(samples, size)
    if budget.batches is not None:
        return [size] * budget.batches
    if not rest or budget.last_batch == "drop":
        return [size] * full
    return [*[size] * full, rest] if budget.last_batch == "keep" else [*[size] * (full - 1), size + rest]


def mini_batches(budget: Budget, samples: int, seed: int, client: int, round_: int) -> list[Tensor]:
    """Return the mini-batches of one round, one per local step, as positions among the client's training samples."""
    if budget.batches is not None:
        return _aligned(budget, samples, seed, client, round_)
    sizes, wanted = batch_sizes(budget, samples), local_steps(budget, samples)
    batches: list[Tensor] = []
    epoch = 0
    while len(batches) < wanted:
        order = permutation(derive("batches", seed, client, round_, epoch), samples)
        batches.extend(torch.split(order[: sum(sizes)], sizes))
        epoch += 1
    return batches[:wanted]


def _aligned(budget: Budget, samples: int, seed: int, client: int, round_: int) -> list[Tensor]:
    """Return mini-batches of which every client has the same number in an epoch; an epoch may span several rounds.

    With one local step in a round the clients are aggregated after every mini-batch. Source: Global Layers, section 3.
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
    """Return weights (n,) that turn a sum over samples into the unweighted mean over mini-batches of their mean.

    A short last mini-batch counts as much as a full one. Source: the validation loss of FENDA-FL's code.
    """
    if not samples:
        return torch.empty(0)
    sizes = [len(part) for part in torch.split(torch.arange(samples), size)]
    return torch.cat([torch.full((each,), 1 / (len(sizes) * each)) for each in sizes])
