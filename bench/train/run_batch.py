"""A run batch: settings x seeds x clients that share data, algorithm, model and budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm
from bench.models.exchange import Exchange
from bench.models.functional import Model
from bench.rng import bits
from bench.train.batching.client_data import ClientData
from bench.train.batching.local_steps import LocalSteps
from bench.train.batching.torch_order import Loaders
from bench.train.task.losses import Criterion
from bench.train.task.outputs import OutputKind
from bench.types import Budget, Federation


@dataclass(frozen=True)
class RunBatch:
    """Shared parts of all runs of the batch, and their ``settings`` and ``seeds``."""

    data: ClientData
    algorithm: Algorithm
    models: Sequence[Model]  # of each training client; the same object where clients have the same shapes
    initial: Callable[[int, int], Tensor]  # (seed, client) -> initial weights
    generator: Callable[[int], Tensor]  # seed -> state of torch's generator after the last client's initial weights
    criterion: Criterion
    output: OutputKind
    budget: Budget
    settings: Sequence[Mapping[str, float]]
    seeds: Sequence[int]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The lengths of the axes: settings (H), seeds (S) and clients (C)."""
        clients = 1 if self.algorithm.pooled else len(self.federation.clients)
        return {"H": len(self.settings), "S": len(self.seeds), "C": clients}

    @property
    def federation(self) -> Federation:
        """The first seed's federation; those of other seeds may differ from it in their samples only."""
        return self.data.federations[0]

    @cached_property
    def exchanges(self) -> Sequence[Exchange]:
        """The shared part of each client's model."""
        exchanges: dict[int, Exchange] = {}
        for model in self.models:
            if id(model) not in exchanges:
                exchanges[id(model)] = Exchange(model, partial(self._shared, model))
        return [exchanges[id(model)] for model in self.models]

    def _shared(self, model: Model, name: str) -> bool:
        return self.algorithm.shared(name, model)

    def model_inputs(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Return stored inputs (..., n, features...) as model inputs.

        With the ``keys`` (...) of local steps the inputs are those of training: each sample is augmented with a random
        key of its own.
        """
        prepare, augment = self.federation.prepare, self.federation.augment
        mini_batches = () if keys is None else keys.shape
        flat = x.flatten(0, len(mini_batches))
        if keys is not None and augment is not None:
            seen = augment(flat, bits(keys[..., None], torch.arange(x.shape[len(mini_batches)])).flatten())
        elif prepare is not None:
            seen = prepare(flat)
        else:
            return x
        return seen.reshape(*mini_batches, -1, *seen.shape[1:])

    def work(self, round_: int, tuning: int = 0) -> LocalSteps:
        """Return the local steps of a round; with ``tuning`` that many epochs of local tuning after the round."""
        budget = self.budget.working(epochs=tuning) if tuning else self.budget
        loaders = self._loaders if budget.draws == "torch" else ()
        return LocalSteps(self.data, budget, round_, bool(tuning), loaders)

    @cached_property
    def _loaders(self) -> Sequence[Loaders]:
        """The data loaders of every seed, for draws in the order of a torch script."""
        training, validation = self.data.counts.tolist()
        return [
            Loaders(self.generator(seed), training[s], validation[s], self.budget) for s, seed in enumerate(self.seeds)
        ]

    def of(self, settings: Sequence[int], seeds: Sequence[int], rounds: int) -> RunBatch:
        """Return some of the settings and seeds, by number, with a budget of ``rounds`` rounds."""
        budget = dataclasses.replace(self.budget, rounds=rounds)
        own_settings, own_seeds = [self.settings[h] for h in settings], [self.seeds[s] for s in seeds]
        return dataclasses.replace(
            self, data=self.data.of(seeds), settings=own_settings, seeds=own_seeds, budget=budget
        )
