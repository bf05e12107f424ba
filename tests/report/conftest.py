"""Made-up records and chosen settings."""

from __future__ import annotations

import pytest

from bench.types import Chosen

CLIENTS = ("north", "south", "west")


@pytest.fixture(scope="session")
def record():
    """A finished run: ``scores[client]`` is what each client's own model reached at every checkpoint."""

    def make(
        scores, *, everywhere=None, checkpoints=("latest", "global", "local"), synthetic=False, sizes=None, **other
    ):
        clients = CLIENTS[: len(scores)]
        own = [(client, client, score) for client, score in enumerate(scores)]
        rest = [(0, client, score) for client, score in enumerate(everywhere or ()) if client]
        return {
            "run": "0123456789abcdef",
            "status": "finished",
            "scores": [
                [rule, model, client, "accuracy", score] for rule in checkpoints for model, client, score in own + rest
            ],
            "clients": list(clients),
            "test_sizes": sizes or [10] * len(clients),
            "synthetic": synthetic,
            "communication": {"up": 14, "down": 1400},
            "environments": [],
        } | other

    return make


@pytest.fixture(scope="session")
def choice(record):
    """A chosen setting of one method, from one list of client scores (or a whole record, or None) per seed."""

    def make(*runs, method="fedavg", settings=5, rule="best-val", **hyperparameters):
        records = tuple(record(run) if isinstance(run, list | tuple) else run for run in runs)
        seeds = tuple(range(2021, 2021 + len(runs)))
        return Chosen(method, rule, hyperparameters, records, seeds, settings, 0.5)

    return make
