"""Guarantees of the mappers to a hook, for the stack and the loop."""

from __future__ import annotations

import pytest

from bench.algorithms.scaffold import Scaffold
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget, Outcome
from tests.train.toy import federation


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_the_order_of_a_states_entries_does_not_matter(path: ExecutionPath, monkeypatch: pytest.MonkeyPatch) -> None:
    def train() -> list[Outcome]:
        budget = Budget(rounds=2, local_epochs=1, batch_size=4)
        return engine.train(
            federation(), algorithm="scaffold", model="logistic", settings=[{"lr": 0.05}], seeds=[1, 2], budget=budget,
            path=path,
        )  # fmt: skip

    expected = train()
    step = Scaffold.step
    # Weights and control variates have the same shape, so that confusing them raises no error.
    monkeypatch.setattr(Scaffold, "step", lambda self, *given: dict(reversed(step(self, *given).items())))
    assert train() == expected
