"""Clients as an axis that scales; each test prints its number (`pytest -s tests/reliability`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from bench.train import engine
from bench.train.batching.local_steps import LocalSteps, PackedSteps
from bench.train.path import mapper_of, select_path
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.types import Budget
from tests.reliability.many_clients import federation, log_normal

BUDGET = Budget(rounds=2, local_epochs=1, batch_size=16)


class Counter(TorchDispatchMode):
    """Counts tensor operations."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return operation(*args, **(kwargs or {}))


def counted(work: Callable[[], Any]) -> int:
    with Counter() as counter:
        work()
    return counter.operations


def prepared(clients: int, algorithm: str = "fedavg", settings: int = 1, seeds: int = 1) -> RunBatch:
    return engine.prepare(
        federation([40] * clients), algorithm=algorithm, model="mlp", budget=BUDGET,
        settings=[{"lr": 0.1 / (h + 1)} for h in range(settings)], seeds=range(seeds),
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "scaffold", "ditto"])
def test_16_1_operations_of_a_round_do_not_grow_with_clients(algorithm: str) -> None:
    def operations(clients: int) -> int:
        run_batch = prepared(clients, algorithm)
        rounds = Rounds(run_batch, mapper_of(run_batch, "stack"))
        state = rounds.begin()

        def one_round() -> None:
            rounds.train(state)
            state.trained = rounds.evaluated(state)

        one_round()  # traces
        return counted(one_round)

    few, many = operations(40), operations(400)
    print(f"{algorithm}: {few} tensor operations in a round of 40 clients, {many} of 400")
    assert few == many


def test_16_1_choosing_the_path_costs_the_same_for_any_number_of_runs_and_clients() -> None:
    select_path(prepared(40), "auto")  # imports
    one, several = prepared(40), prepared(300, settings=4, seeds=3)
    few, many = counted(lambda: select_path(one, "auto")), counted(lambda: select_path(several, "auto"))
    print(f"{few} tensor operations to choose for 40 models, {many} for 3,600")
    assert many <= 1.01 * few


@pytest.mark.parametrize(
    "sigma", [pytest.param(0.5, marks=pytest.mark.slow), 1.0, pytest.param(1.5, marks=pytest.mark.slow)]
)
def test_16_1_log_normal_clients_are_padded_by_a_quarter_at_most(sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[PackedSteps] = []
    of = LocalSteps.of
    monkeypatch.setattr(LocalSteps, "of", lambda *given: packed.append(of(*given)) or packed[-1])
    clients = federation(log_normal(1000, sigma=sigma))
    run_batch = engine.prepare(clients, algorithm="fedavg", model="logistic", settings=[{}], seeds=[0], budget=BUDGET)
    rounds = Rounds(run_batch, mapper_of(run_batch, "stack"))
    rounds.train(rounds.begin())
    steps = sum(int(each.active.sum()) for each in packed)
    samples = sum(int(each.sizes.sum()) for each in packed)
    assert samples == int(run_batch.data.counts[0].sum())
    padded_steps = sum(each.active.numel() for each in packed) / steps - 1
    padded_samples = sum(each.rows.numel() for each in packed) / samples - 1
    print(f"sigma {sigma}: {len(packed)} groups, padding: {padded_steps:.1%} of steps, {padded_samples:.1%} of samples")
    assert padded_steps <= 0.25
    assert padded_samples <= 0.25


MANY = """
import resource, sys
from bench.train import engine
from bench.types import Budget
from tests.reliability.many_clients import federation
outcome, = engine.train(
    federation([100] * 10_000), algorithm="fedavg", model="mlp", model_options={"hidden": 64}, settings=[{"lr": 0.05}],
    seeds=[0], budget=Budget(rounds=1, local_epochs=1, batch_size=16),
)
assert outcome.path == "stack" and len(outcome.validation[0]) == 10_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.slow
def test_16_1_ten_thousand_clients_train_in_4_gb() -> None:
    made = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    gigabytes = int(made.stdout) / 1e9
    print(f"10,000 clients x mlp: {gigabytes:.2f} GB")
    assert gigabytes < 4
