"""Who gets which share of a class, as the authors' codes draw it from numpy's legacy random stream.

The published partitions exist only in these streams; everything else draws from ``numpy.random.default_rng``. Each
function takes a stream and returns fractions (classes, clients), float64, of which each row sums to 1 or is 0.
"""

from __future__ import annotations

import numpy as np

Stream = np.random.RandomState


def stream(seed: int) -> Stream:
    """The numbers that follow ``np.random.seed(seed)``, without the global generator."""
    return np.random.RandomState(seed)


def pathological(drawn: Stream, classes: int, clients: int) -> np.ndarray:
    """Two classes per client, each class divided among its holders in uniformly drawn proportions (APPLE).

    Shuffled decks of all classes are dealt in pairs, so a class has about 2 ``clients`` / ``classes`` holders. With
    an odd number of classes, a pair that straddles two decks may be the same class twice.
    """
    decks = [np.arange(classes) for _ in range(2 * clients // classes + 1)]
    for deck in decks:
        drawn.shuffle(deck)
    pairs = np.concatenate(decks)[: 2 * clients].reshape(clients, 2)
    fractions = np.zeros((classes, clients))
    for label in range(classes):
        holders = np.flatnonzero((pairs == label).any(axis=1))
        weights = drawn.rand(len(holders))
        fractions[label, holders] = weights / weights.sum()
    return fractions


def practical(drawn: Stream, classes: int, clients: int) -> np.ndarray:
    """Of each class, one client gets 10 %, all but two others get 1 %, and one the rest: 80 % of 12 (APPLE)."""
    shares = np.full(clients, 0.01)
    shares[-2:] = 0.1, 0.9 - 0.01 * (clients - 2)
    fractions = np.empty((classes, clients))
    for label in range(classes):
        drawn.shuffle(shares)  # on from the last class's order
        fractions[label] = shares
    return fractions


def dirichlet(drawn: Stream, classes: int, clients: int, alpha: float) -> np.ndarray:
    """Each class in proportions from a symmetric Dirichlet(``alpha``) over the clients (PLayer-FL)."""
    return np.array([drawn.dirichlet(np.full(clients, alpha)) for _ in range(classes)])
