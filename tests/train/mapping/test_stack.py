"""Stacks of many clients: groups and parts give the numbers of the loop."""

from __future__ import annotations

import pytest
import torch

from bench.train import engine
from bench.train.batching.groups import FEW
from bench.train.mapping.stack import Stack
from bench.train.path import ExecutionPath
from bench.types import Budget, Outcome
from tests.train.toy import federation

SLOWER = ("fedavg", "scaffold", "fedfomo", "per_fedavg")
SIZES = tuple(5 + c * c // 40 for c in range(FEW + 8))  # 5 to 43 samples: several groups


def train(algorithm: str, path: ExecutionPath, sizes: tuple[int, ...] = SIZES) -> list[Outcome]:
    return engine.train(
        federation(sizes=sizes), algorithm=algorithm, model="mlp", settings=[{"lr": 0.05}], seeds=[2],
        budget=Budget(rounds=2, local_epochs=1, batch_size=8, test_every=1), path=path,
    )  # fmt: skip


def assert_alike(found: list[Outcome], expected: list[Outcome]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(one.validation), torch.tensor(other.validation), rtol=1e-4, atol=1e-5)
        assert [key for *key, _ in one.scores] == [key for *key, _ in other.scores]
        assert one.communication == other.communication


@pytest.mark.parametrize("algorithm", ["ditto", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])
def test_groups_of_clients_give_the_numbers_of_the_loop(algorithm: str) -> None:
    assert_alike(train(algorithm, "stack"), train(algorithm, "loop"))


def test_parts_of_a_large_stack_give_the_numbers_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (20,) * (2 * FEW + 6)
    whole = train("ditto", "stack", sizes)
    monkeypatch.setattr(Stack, "together", 1)  # parts of FEW clients
    assert_alike(train("ditto", "stack", sizes), whole)
