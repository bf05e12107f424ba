"""Shares of classes by client, drawn from numpy's legacy random generator as published code does.

The published partitions can only be reproduced with these draws. All other code uses ``numpy.random.default_rng``. Each
function takes a generator and returns fractions (classes, clients) float64; each row sums to 1 or is 0.
"""

from __future__ import annotations

import numpy as np

Stream = np.random.RandomState


def stream(seed: int) -> Stream:
    """Return a generator of the numbers that follow ``np.random.seed(seed)``."""
    return np.random.RandomState(seed)


def pathological(drawn: Stream, classes: int, clients: int) -> np.ndarray:
    """Return two classes per client, each divided among its holders in uniformly drawn proportions (APPLE).

    Clients get consecutive pairs of a sequence of shuffled class lists, so a class has about 2 ``clients`` /
    ``classes`` holders. With an odd number of classes, a pair may hold the same class twice.
    """
    lists = [np.arange(classes) for _ in range(2 * clients // classes + 1)]
    for each in lists:
        drawn.shuffle(each)
    pairs = np.concatenate(lists)[: 2 * clients].reshape(clients, 2)
    fractions = np.zeros((classes, clients))
    for label in range(classes):
        holders = np.flatnonzero((pairs == label).any(axis=1))
        weights = drawn.rand(len(holders))
        fractions[label, holders] = weights / weights.sum()
    return fractions


def practical(drawn: Stream, classes: int, clients: int) -> np.ndarray:
    """Return 10 % of each class for one client, the rest for another and 1 % for all others (APPLE)."""
    shares = np.full(clients, 0.01)
    shares[-2:] = 0.1, 0.9 - 0.01 * (clients - 2)
    fractions = np.empty((classes, clients))
    for label in range(classes):
        drawn.shuffle(shares)  # starts from the order of the last class
        fractions[label] = shares
    return fractions


def dirichlet(drawn: Stream, classes: int, clients: int, alpha: float) -> np.ndarray:
    """Return proportions of each class from a symmetric Dirichlet(``alpha``) over the clients (PLayer-FL)."""
    return np.array([drawn.dirichlet(np.full(clients, alpha)) for _ in range(classes)])
