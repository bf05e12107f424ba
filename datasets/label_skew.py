"""Label-skewed clients of image data sets, with the protocols of APPLE and PLayer-FL."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench.data.partition import Partition, label_dirichlet, pathological, practical
from bench.rng import derive, permutation
from bench.types import Client, SpecError, Split, nearest

PROTOCOLS = ("apple", "player")
PARTITIONS = ("pathological", "practical", "dirichlet")
METRICS = {"apple": ("accuracy",), "player": ("macro_f1", "accuracy", "loss")}
Labelled = tuple[np.ndarray, np.ndarray]  # inputs (n, ...), class numbers (n,)


@dataclass(frozen=True)
class LabelSkew:
    """Distribution of images over clients; raises :class:`SpecError` for impossible options.

    ``protocol`` "apple" partitions the training and the test file alike and holds out 15 % of a client's training
    samples for validation. "player" partitions the first samples of the training file and splits each client's share
    into 64 % for training, 16 % for validation and 20 % for testing. ``partition`` names a function of
    :mod:`bench.data.partition` ("dirichlet" is ``label_dirichlet``, the only one that uses ``alpha``). ``seed``
    determines every random draw.
    """

    protocol: str
    partition: str
    clients: int
    alpha: float
    seed: int

    def __post_init__(self) -> None:
        for option, known in (("protocol", PROTOCOLS), ("partition", PARTITIONS)):
            if getattr(self, option) not in known:
                raise SpecError(f"{option} = {getattr(self, option)!r}: {nearest(str(getattr(self, option)), known)}")
        for option, name in (("clients", "clients"), ("seed", "partition_seed")):
            if type(getattr(self, option)) is not int:
                raise SpecError(f"{name} = {getattr(self, option)!r}: expected a whole number")
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float):
            raise SpecError(f"alpha = {self.alpha!r}: expected a number")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the protocol's paper: APPLE's Table 1; PLayer-FL's Tables 1, A.7 and A.10."""
        return METRICS[self.protocol]

    def clients_from(
        self, read: Callable[[Literal["train", "test"], int | None], Labelled], per_client: int
    ) -> tuple[Client, ...]:
        """Return the clients. ``read(part, most)`` returns the first ``most`` samples of the training or test file.

        The protocol "player" uses ``per_client`` samples per client, on average.
        """
        if self.protocol == "apple":
            return self.cut(read("train", None), read("test", None))
        return self._cut_training_file(read("train", per_client * self.clients))

    def cut(self, train: Labelled, test: Labelled) -> tuple[Client, ...]:
        """Return clients that have the same share of each class in their training and test part (APPLE)."""
        for_train, for_test = self._partitions(train[1], test[1])
        clients = []
        for number, (indices, tested) in enumerate(zip(for_train.clients, for_test.clients, strict=True)):
            self._require(indices, 2, number)
            order = permutation(derive("validation of a data set", self.seed, number), len(indices)).numpy()
            trained, validated = np.split(indices[order], [math.floor(0.85 * len(indices))])
            test_split = _split(test, tested) if len(tested) else None
            clients.append(Client(f"client_{number}", _split(train, trained), test_split, _split(train, validated)))
        return tuple(clients)

    def _cut_training_file(self, pool: Labelled) -> tuple[Client, ...]:
        """Clients whose three parts come from ``pool`` (PLayer-FL, with its fixed seed of the split)."""
        (partition,) = self._partitions(pool[1])
        clients = []
        for number, indices in enumerate(partition.clients):
            self._require(indices, 3, number)
            rest, tested = train_test_split(indices, test_size=0.2, random_state=42)
            trained, validated = train_test_split(rest, test_size=0.2, random_state=42)
            train, test, validation = (_split(pool, part) for part in (trained, tested, validated))
            clients.append(Client(f"client_{number}", train, test, validation))
        return tuple(clients)

    def _partitions(self, *labels: np.ndarray) -> list[Partition]:
        if self.partition == "dirichlet":
            return label_dirichlet(labels, self.clients, self.alpha, self.seed)
        cut = pathological if self.partition == "pathological" else practical
        return cut(labels, self.clients, self.seed)

    def _require(self, indices: np.ndarray, fewest: int, number: int) -> None:
        if len(indices) < fewest:
            raise SpecError(
                f"partition {self.partition} with partition_seed = {self.seed}: client_{number} gets {len(indices)} "
                f"samples, expected at least {fewest}; choose another seed, fewer clients or, for dirichlet, a larger "
                "alpha"
            )


def _split(samples: Labelled, indices: np.ndarray) -> Split:
    x, y = samples
    return Split(torch.from_numpy(x[indices]), torch.from_numpy(y[indices]))
