"""Ways to cut one data set into clients; every one is total, disjoint and a function of its seed."""

from __future__ import annotations

import numpy as np

from bench.types import SpecError

ATTEMPTS = 1000


def dirichlet(labels: np.ndarray, clients: int, alpha: float, seed: int, minimum: int = 1) -> list[np.ndarray]:
    """Label skew: client k gets a share p_k of each class, with p ~ Dirichlet(alpha, ..., alpha) drawn per class.

    ``labels`` is (n,); the result holds one ascending index array per client, together every index once. A draw that
    leaves a client fewer than ``minimum`` samples is repeated, at most ATTEMPTS times in all. Raises
    :class:`SpecError`. Source: Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks"
    (ICML 2019), section 4.
    """
    request = f"dirichlet over {clients} clients with alpha = {alpha!r}"
    if clients < 1:
        raise SpecError(f"{request}: expected at least 1 client")
    if not 0 < alpha < 1e6:  # beyond, shares are equal to more digits than there are samples
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
