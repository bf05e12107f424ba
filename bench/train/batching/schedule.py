"""Mini-batch schedules: which samples a client uses in each local step.

A client's samples are split once per seed into training and validation samples. In every round the training samples are
shuffled and cut into mini-batches. If a round has more local steps than mini-batches, the samples are shuffled again.
Nothing here depends on hyper-parameters. Source: FENDA-FL, sections 3.3 and 4, and the loaders of its code.

Schedules of many clients are computed as tensors together. Numbers of samples are tensors of any shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bench.rng import keys
from bench.train.batching.ragged import places, starts
from bench.train.batching.shuffle import permutations
from bench.types import Budget, SpecError


def held_out(samples: Tensor, validation: float) -> Tensor:
    """Return how many samples the share ``validation`` is, rounded down; 0.29 of 100 is 29 despite float rounding."""
    return (samples.double() * validation + 1e-9).floor().to(torch.int64)


def held_out_rows(samples: Tensor, validation: float, seeds: Sequence[int]) -> Tensor:
    """Return whether each sample is held out for validation: of all seeds and clients (S, C), one after another."""
    clients = samples.shape[1]
    drawn = keys("validation", *zip(*((seed, c) for seed in seeds for c in range(clients)), strict=True))
    order, sizes = permutations(drawn, samples.flatten()), samples.flatten()
    chosen = places(sizes) < held_out(sizes, validation).repeat_interleave(sizes)
    return torch.zeros(len(order), dtype=torch.bool).index_put_(
        (starts(sizes).repeat_interleave(sizes)[chosen] + order[chosen],), torch.tensor(True)
    )


class Cut(NamedTuple):
    """Cut of an epoch into mini-batches, for clients with different numbers of training samples."""

    batches: Tensor  # mini-batches in an epoch
    size: Tensor  # samples in every mini-batch but the last
    last: Tensor  # samples in the last mini-batch
    steps: Tensor  # local steps in a round


def cut(budget: Budget, samples: Tensor) -> Cut:
    """Return how the training samples of each client are cut.

    Raises :class:`SpecError` for a client with fewer samples than the budget has mini-batches.
    """
    if budget.batches is not None:
        if bool((samples < budget.batches).any()):
            raise SpecError(
                f"batches = {budget.batches}: a client has only {int(samples.min())} training samples; "
                f"give at most {int(samples.min())}"
            )
        size = last = samples // budget.batches
        batches = torch.full_like(samples, budget.batches)
    else:
        size = samples if budget.batch_size == "full" else samples.clamp(max=budget.batch_size)
        batches, rest = samples // size, samples % size
        keeps = (rest > 0) & (budget.last_batch == "keep")
        batches = batches + keeps
        last = torch.where(keeps, rest, size + rest * (budget.last_batch == "merge"))
    steps = torch.full_like(samples, budget.local_steps or 0)
    return Cut(batches, size, last, steps if budget.local_epochs is None else budget.local_epochs * batches)


def batch_sizes(budget: Budget, samples: int) -> list[int]:
    """Return the sizes of the mini-batches of one epoch of a client, in order."""
    batches, size, last, _ = (int(each) for each in cut(budget, torch.tensor(samples)))
    return [size] * (batches - 1) + [last]


def mini_batches(
    budget: Budget, samples: Tensor, seeds: Sequence[int], clients: Sequence[int], round_: int
) -> tuple[Tensor, Tensor]:
    """Return the mini-batches of one round, as positions among each client's training samples, and their sizes.

    ``samples`` (S, C) are the numbers of training samples. Positions are (steps, S, C, largest size), 0 beyond the size
    of the mini-batch; sizes are (steps, S, C), 0 for steps that a client does not take.

    With ``budget.batches`` every client has the same number of mini-batches in an epoch, and an epoch may span several
    rounds. With one local step in a round the clients are aggregated after every mini-batch. Source: Global Layers,
    section 3.
    """
    batches, size, last, steps = cut(budget, samples)
    aligned = budget.batches is not None
    begin = round_ * steps if aligned else torch.zeros_like(steps)  # steps taken before, in the first epoch counted
    epoch = begin // batches
    epochs = (begin + steps - 1) // batches - epoch + 1
    # One random order for every epoch of every client.
    owner = torch.arange(samples.numel()).repeat_interleave(epochs.flatten())
    number = (epoch.flatten()[owner] + places(epochs)).tolist()
    pairs = [(seed, client) for seed in seeds for client in clients]
    of_seed, of_client = zip(*(pairs[each] for each in owner.tolist()), strict=True)
    words = (number,) if aligned else ([round_] * len(number), number)
    sizes = samples.flatten()[owner]
    orders = permutations(keys("aligned batches" if aligned else "batches", of_seed, of_client, *words), sizes)
    # Each step reads a piece of the order of its epoch.
    step = torch.arange(int(steps.max()))[:, None, None]
    place = (begin + step) % batches
    taken = torch.where(place == batches - 1, last, size) * (step < steps)
    order = (starts(epochs) + (begin + step) // batches - epoch).clamp(max=len(sizes) - 1)
    counter = torch.arange(int(taken.max()))
    inside = counter < taken[..., None]
    read = torch.where(inside, (starts(sizes)[order] + place * size)[..., None] + counter, 0)
    return torch.where(inside, orders[read], 0), taken


def mean_over_batches(samples: Tensor, size: Tensor) -> Tensor:
    """Return weights that turn a sum over samples into the unweighted mean over mini-batches of their mean.

    ``samples`` and ``size`` are numbers of samples and sizes of mini-batches (n,); the weights of all n follow one
    another. A short last mini-batch counts as much as a full one. Source: the validation loss of FENDA-FL's code.
    """
    size = size.clamp(min=1)
    batches = -(-samples // size)
    last = samples - (batches - 1) * size
    batch = places(samples) // size.repeat_interleave(samples)
    lengths = torch.where(
        batch == (batches - 1).repeat_interleave(samples),
        last.repeat_interleave(samples),
        size.repeat_interleave(samples),
    )
    return (1 / (batches.repeat_interleave(samples) * lengths).double()).to(torch.float32)
