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
from bench.rng import bits, derive
from bench.train.batching import schedule
from bench.train.batching.samples import Samples
from bench.train.batching.torch_order import Loaders
from bench.train.mapping.mapper import Index, LocalWork
from bench.train.task.losses import Criterion
from bench.train.task.outputs import OutputKind
from bench.types import Budget, Client, DataError, Federation


@dataclass(frozen=True)
class RunBatch:
    """Shared parts of all runs of the batch, and their ``settings`` and ``seeds``."""

    federations: Sequence[Federation]  # of each seed; the same object where the seeds share their data
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
        return self.federations[0]

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

    @cached_property
    def samples(self) -> Mapping[Index, Samples]:
        """The samples of each training client, by (seed, client); seeds that share data share the object."""
        samples = {id(federation): self._samples(federation) for federation in self.federations}
        return {(s, c): samples[id(own)][c] for s, own in enumerate(self.federations) for c in range(self.sizes["C"])}

    def _samples(self, federation: Federation) -> Sequence[Samples]:
        """Return the samples of each client, or of all clients pooled."""
        groups = [federation.clients] if self.algorithm.pooled else [(own,) for own in federation.clients]
        if len({client.train.x.shape[1:] for client in groups[0]}) > 1:
            name = federation.name
            raise DataError(f"{name}: samples with different features cannot be pooled; align the features first")

        def joined(clients: Sequence[Client]) -> Samples:
            fixed = [client.validation for client in clients if client.validation is not None]
            return Samples([client.train for client in clients], fixed or None)

        return [joined(clients) for clients in groups]

    @cached_property
    def splits(self) -> dict[Index, tuple[Tensor, Tensor]]:
        """Rows of training and validation samples, by (seed, client)."""

        def split(s: int, c: int) -> tuple[Tensor, Tensor]:
            samples = self.samples[s, c]
            if samples.validation is None:
                return schedule.split(samples.training, self.budget.validation, self.seeds[s], c)
            rows = torch.arange(samples.training + samples.validation)
            return rows[: samples.training], rows[samples.training :]

        return {index: split(*index) for index in self.samples}

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

    @cached_property
    def counts(self) -> Tensor:
        """Numbers of training and validation samples, (2, S, C)."""
        sizes = [[len(rows) for rows in pair] for pair in self.splits.values()]
        return torch.tensor(sizes).T.reshape(2, self.sizes["S"], self.sizes["C"])

    def work(self, s: int, c: int, round_: int, tuning: int = 0) -> LocalWork:
        """Return the local steps of client ``c`` in a round of seed number ``s``.

        With ``tuning`` they are ``tuning`` epochs of local tuning after the round.
        """
        rows = self.splits[s, c][0]
        budget = self.budget.working(epochs=tuning) if tuning else self.budget
        purpose = "tuning" if tuning else "local steps"
        positions: Sequence[Tensor]
        if budget.draws == "torch":
            positions = self._loaders[s].epoch(round_)[c]
        else:
            # Tuning after a round shuffles in another order than the round did.
            positions = schedule.mini_batches(budget, len(rows), self.seeds[s], c, ~round_ if tuning else round_)
        key = torch.tensor(derive(purpose, self.seeds[s], c, round_))
        return LocalWork([rows[each] for each in positions], bits(key, torch.arange(len(positions))))

    @cached_property
    def _loaders(self) -> Sequence[Loaders]:
        """The data loaders of every seed, for draws in the order of a torch script."""
        training, validation = self.counts.tolist()
        return [
            Loaders(self.generator(seed), training[s], validation[s], self.budget) for s, seed in enumerate(self.seeds)
        ]

    def of(self, settings: Sequence[int], rounds: int) -> RunBatch:
        """Return some of the settings, by number, with a budget of ``rounds`` rounds."""
        budget = dataclasses.replace(self.budget, rounds=rounds)
        return dataclasses.replace(self, settings=[self.settings[h] for h in settings], budget=budget)
