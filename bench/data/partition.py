"""Partitions of one data set into disjoint clients, determined by a seed.

:func:`pathological`, :func:`practical` and :func:`label_dirichlet` repeat the random draws of published code (see
:mod:`bench.data.legacy`). They take the labels of several parts, such as training and test images, and give a client
the same share of a class in each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.data import legacy
from bench.types import SpecError

ATTEMPTS = 1000


@dataclass(frozen=True)
class Partition:
    """The samples of one part by client: an index array per client, class by class, and the unassigned indices."""

    clients: tuple[np.ndarray, ...]
    left_out: np.ndarray


def dirichlet(labels: np.ndarray, clients: int, alpha: float, seed: int, minimum: int = 1) -> list[np.ndarray]:
    """Return one ascending index array per client; client k gets a share p_k of each class.

    The shares p ~ Dirichlet(alpha, ..., alpha) are drawn for each class. ``labels`` is (n,); every index occurs once. A
    draw that gives a client fewer than ``minimum`` samples is repeated, with at most ATTEMPTS draws in all. Raises
    :class:`SpecError` for impossible arguments. Source: Yurochkin et al., "Bayesian Nonparametric Federated Learning of
    Neural Networks" (ICML 2019), section 4.
    """
    request = f"dirichlet over {clients} clients with alpha = {alpha!r}"
    if clients < 1:
        raise SpecError(f"{request}: expected at least 1 client")
    if not 0 < alpha < 1e6:  # with larger values all shares are equal in practice
        raise SpecError(f"{request}: expected an alpha above 0 and below 1e6")
    if clients * minimum > len(labels):
        raise SpecError(f"{request}: {len(labels)} samples cannot give each client {minimum}; ask for fewer clients")
    generator = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        owner = _owners(labels, clients, alpha, generator)
        if np.bincount(owner, minlength=clients).min() >= minimum:
            return [np.flatnonzero(owner == client) for client in range(clients)]
    raise SpecError(
        f"{request}: none of {ATTEMPTS} draws gave every client {minimum} samples; "
        "raise alpha, or lower the minimum or the number of clients"
    )


def _owners(labels: np.ndarray, clients: int, alpha: float, generator: np.random.Generator) -> np.ndarray:
    """The client (n,) of every sample in one draw."""
    owner = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for client, part in enumerate(np.split(members, cuts)):
            owner[part] = client
    return owner


def pathological(parts: Sequence[np.ndarray], clients: int, seed: int) -> list[Partition]:
    """Give each client two random classes; each class is divided among its holders in random proportions.

    ``parts`` are label arrays (n,), partitioned alike. Rounding leaves fewer samples of a class unassigned than it has
    holders. Raises :class:`SpecError` if 2 ``clients`` are fewer than the classes. Source: Luo and Wu, "Adapt to
    Adaptation: Learning Personalization for Cross-Silo Federated Learning" (IJCAI 2022), experiments, and its code.
    """
    classes = _classes(parts)
    expected = f"at least {(classes + 1) // 2} clients, two of the {classes} classes each"
    _check(f"pathological over {clients} clients", seed, 2 * clients >= classes, expected)
    drawn = legacy.stream(seed)
    return _shuffled(parts, legacy.pathological(drawn, classes, clients), drawn)


def practical(parts: Sequence[np.ndarray], clients: int, seed: int) -> list[Partition]:
    """Give each client samples of every class: of each class, one client gets 10 %, one the rest, the others 1 %.

    ``parts`` are label arrays (n,), partitioned alike. Rounding leaves fewer samples of a class unassigned than there
    are clients. Raises :class:`SpecError` if the rest would be less than 10 %. Source: that of :func:`pathological`,
    with 12 clients, where the rest is 80 %.
    """
    _check(f"practical over {clients} clients", seed, 2 <= clients <= 82, "2 to 82 clients")
    drawn = legacy.stream(seed)
    return _shuffled(parts, legacy.practical(drawn, _classes(parts), clients), drawn)


def label_dirichlet(parts: Sequence[np.ndarray], clients: int, alpha: float, seed: int) -> list[Partition]:
    """Divide each class in proportions from Dirichlet(``alpha``); clients get consecutive slices of the class.

    ``parts`` are label arrays (n,), partitioned alike. The last client gets the samples that rounding leaves. Clients
    may get few or no samples. Raises :class:`SpecError` for impossible arguments. Source: Elhussein and Gürsoy,
    "PLayer-FL: A Principled Approach to Personalized Layer-wise Cross-Silo Federated Learning" (2025), experiments, and
    its code.
    """
    request = f"label_dirichlet over {clients} clients with alpha = {alpha!r}"
    _check(request, seed, clients >= 1, "at least 1 client")
    _check(request, seed, 0 < alpha < 1e6, "an alpha above 0 and below 1e6")
    fractions = legacy.dirichlet(legacy.stream(seed), _classes(parts), clients, alpha)
    _check(request, seed, bool(np.isfinite(fractions).all()), "a larger alpha, for which the shares are finite")
    partitions = []
    for labels in parts:
        by_class = [np.flatnonzero(labels == label) for label in range(len(fractions))]
        partitions.append(_assigned(by_class, fractions, rest_to_last=True))
    return partitions


def _classes(parts: Sequence[np.ndarray]) -> int:
    return 1 + max((int(labels.max()) for labels in parts if len(labels)), default=0)


def _check(request: str, seed: int, fits: bool, expected: str) -> None:
    if not fits:
        raise SpecError(f"{request}: expected {expected}")
    if not 0 <= seed < 2**32:
        raise SpecError(f"{request}: seed = {seed!r}, expected a whole number from 0 and below 2**32")


def _shuffled(parts: Sequence[np.ndarray], fractions: np.ndarray, drawn: legacy.Stream) -> list[Partition]:
    """Assign the samples of each class of each part in an order shuffled by ``drawn``."""
    partitions = []
    for labels in parts:
        by_class = [np.flatnonzero(labels == label) for label in range(len(fractions))]
        for members in by_class:
            drawn.shuffle(members)
        partitions.append(_assigned(by_class, fractions, rest_to_last=False))
    return partitions


def _assigned(by_class: list[np.ndarray], fractions: np.ndarray, *, rest_to_last: bool) -> Partition:
    """Assign each client, in turn, its fraction of each class, rounded down, from the front."""
    hands: list[list[np.ndarray]] = [[] for _ in range(fractions.shape[1])]
    left_out = []
    for members, shares in zip(by_class, fractions, strict=True):
        counts = (shares * len(members)).astype(np.int64)
        if rest_to_last:
            counts[-1] += len(members) - counts.sum()
        *slices, rest = np.split(members, np.cumsum(counts))
        for hand, part in zip(hands, slices, strict=True):
            hand.append(part)
        left_out.append(rest)
    return Partition(tuple(map(np.concatenate, hands)), np.concatenate(left_out))
