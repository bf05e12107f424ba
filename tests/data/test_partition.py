"""Dirichlet label skew: total, disjoint, repeatable, and never for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.partition import dirichlet
from bench.types import SpecError


def check(parts: list[np.ndarray], samples: int, clients: int, minimum: int) -> None:
    assert len(parts) == clients
    assert sorted(np.concatenate(parts)) == list(range(samples))
    assert all(len(part) >= minimum and (np.diff(part) > 0).all() for part in parts)


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=200),
    clients=st.integers(1, 8),
    alpha=st.floats(1e-300, 1e6, exclude_max=True),
    seed=st.integers(0, 2**32),
)
def test_every_sample_goes_to_one_client(labels: list[int], clients: int, alpha: float, seed: int):
    check(dirichlet(np.array(labels), clients, alpha, seed, minimum=0), len(labels), clients, 0)


@given(samples=st.integers(60, 200), alpha=st.floats(0.3, 1e3), seed=st.integers(0, 2**32), minimum=st.integers(1, 5))
def test_every_client_gets_its_minimum(samples: int, alpha: float, seed: int, minimum: int):
    check(dirichlet(np.arange(samples) % 5, 4, alpha, seed, minimum), samples, 4, minimum)


@given(seed=st.integers(0, 2**32))
def test_the_seed_decides_all(seed: int):
    labels = np.arange(100) % 7
    first, second = (dirichlet(labels, 4, 0.5, seed) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_seeds_differ():
    labels = np.arange(100) % 7
    assert {len(dirichlet(labels, 2, 0.5, seed)[0]) for seed in range(5)} != {50}


def test_a_large_alpha_gives_every_client_the_same_mixture():
    labels = np.repeat(np.arange(5), 200)
    for part in dirichlet(labels, 4, 1e5, seed=0):
        assert np.abs(np.bincount(labels[part]) - 50).max() <= 2


def test_a_small_alpha_gives_every_class_to_one_client():
    labels = np.repeat(np.arange(20), 10)
    parts = dirichlet(labels, 3, 1e-6, seed=0)
    assert sum(len(np.unique(labels[part])) for part in parts) == 20


@pytest.mark.parametrize(
    ("clients", "alpha", "minimum", "message"),
    [
        (0, 0.5, 1, "expected at least 1 client"),
        (3, 0.0, 1, "expected an alpha above 0"),
        (3, float("nan"), 1, "expected an alpha above 0"),
        (3, float("inf"), 1, "expected an alpha above 0"),
        (3, 0.5, 7, "20 samples cannot give each client 7"),
        (5, 1e-6, 1, "none of 1000 draws gave every client 1 samples; raise alpha"),
    ],
)
def test_impossible_requests_are_refused(clients: int, alpha: float, minimum: int, message: str):
    with pytest.raises(SpecError, match=message):
        dirichlet(np.arange(20) % 2, clients, alpha, seed=0, minimum=minimum)
