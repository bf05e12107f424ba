"""The data of a run batch: every client's samples, and their split into training and validation samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bench.train.batching import schedule
from bench.train.batching.ragged import Ragged, places
from bench.train.batching.samples import Samples, Shelf
from bench.types import Client, DataError, Federation, SpecError


@dataclass(frozen=True)
class ClientData:
    """The samples of all seeds (S) and training clients (C), which is one client if the algorithm pools them."""

    federations: Sequence[Federation]  # of each seed; the same object where the seeds share their data
    pooled: bool
    seeds: Sequence[int]
    validation: float  # share of the training samples held out, where the data set fixes no validation samples

    def of(self, seeds: Sequence[int]) -> ClientData:
        """Return the data of some of the seeds, by number."""
        if list(seeds) == list(range(len(self.seeds))):
            return self
        federations, own = [self.federations[s] for s in seeds], [self.seeds[s] for s in seeds]
        return ClientData(federations, self.pooled, own, self.validation)

    @cached_property
    def rows(self) -> Sequence[Sequence[Samples]]:
        """The samples of each seed's clients; seeds that share data share the objects."""
        samples = {id(federation): self._samples(federation) for federation in self.federations}
        return [samples[id(own)] for own in self.federations]

    @cached_property
    def samples(self) -> Mapping[tuple[int, ...], Samples]:
        """The samples of each training client, by (seed, client)."""
        return {(s, c): each for s, row in enumerate(self.rows) for c, each in enumerate(row)}

    def _samples(self, federation: Federation) -> Sequence[Samples]:
        """Return the samples of each client, or of all clients pooled."""
        groups = [federation.clients] if self.pooled else [(own,) for own in federation.clients]
        if len({client.train.x.shape[1:] for client in groups[0]}) > 1:
            name = federation.name
            raise DataError(f"{name}: samples with different features cannot be pooled; align the features first")

        def joined(clients: Sequence[Client]) -> Samples:
            fixed = [client.validation for client in clients if client.validation is not None]
            return Samples([client.train for client in clients], fixed or None)

        return [joined(clients) for clients in groups]

    @cached_property
    def shelf(self) -> Shelf:
        """All samples in one tensor."""
        return Shelf(self.rows)

    @cached_property
    def counts(self) -> Tensor:
        """Numbers of training and validation samples, (2, S, C).

        Raises :class:`SpecError` for a client whose samples would all be held out.
        """
        training, fixed = self._stored
        drawn = schedule.held_out(training, self.validation)
        if len(none_left := training[(fixed < 0) & (drawn > 0) & (drawn == training)]):
            raise SpecError(
                f"validation = {self.validation!r}: leaves a client with {int(none_left[0])} training samples none; "
                f"give a smaller share"
            )
        return torch.where(fixed < 0, torch.stack([training - drawn, drawn]), torch.stack([training, fixed]))

    @cached_property
    def _stored(self) -> tuple[Tensor, Tensor]:
        """Numbers of stored training samples, and of fixed validation samples, -1 where the data set fixes none."""
        training = [[each.training for each in row] for row in self.rows]
        fixed = [[-1 if each.validation is None else each.validation for each in row] for row in self.rows]
        return torch.tensor(training), torch.tensor(fixed)

    @cached_property
    def splits(self) -> tuple[Ragged, Ragged]:
        """Rows of training and of validation samples of every seed and client."""
        training, fixed = self._stored
        sizes = training + fixed.clamp(min=0)
        row, own = places(sizes), sizes.flatten()
        held_out = row >= training.flatten().repeat_interleave(own)
        drawn = (fixed < 0).flatten().repeat_interleave(own)
        held_out[drawn] = schedule.held_out_rows(sizes, self.validation, self.seeds)[drawn]
        return Ragged(row[~held_out], self.counts[0]), Ragged(row[held_out], self.counts[1])
