"""Schedules of the learning rate equal their equations, torch's schedulers and plain loops, on both paths."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from bench import registry
from bench.train import engine
from bench.train.optim.schedules import scheduled
from bench.train.path import ExecutionPath
from bench.types import Budget, Outcome, SpecError
from tests.reference import apple, models
from tests.reference.common import floats, load, step, weighted_mean
from tests.train.toy import federation, sites

ROUNDS, LR = 8, 0.3
TORCH: dict[str, tuple[dict[str, float], Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]]] = {
    "step": ({"lr_decay": 0.5, "decay_every": 3}, lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5)),
    "exponential": ({"lr_decay": 0.9}, lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9)),
    "cosine": ({"lr_final": 0.1}, lambda o: lr_scheduler.CosineAnnealingLR(o, ROUNDS, eta_min=0.1 * LR)),
    "constant": ({"warmup": 4}, lambda o: lr_scheduler.LinearLR(o, start_factor=1 / 4, total_iters=3)),
}
BUDGET = Budget(rounds=3, local_steps=2, batch_size=4)
TORCH_DRAWS = Budget(rounds=3, local_epochs=1, batches=2, draws="torch")


def rates(schedule: str, options: dict[str, float], lr: float = 1.0, rounds: int = ROUNDS) -> list[float]:
    """Return our learning rates of all rounds."""
    given = {name: torch.tensor(float(value)) for name, value in options.items()}
    return [float(scheduled(torch.tensor(lr), schedule, given, torch.tensor(r), rounds)) for r in range(rounds)]


def torch_rates(schedule: str) -> list[float]:
    """Return the learning rates of torch's scheduler."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler, found = TORCH[schedule][1](optimizer), []
    for _ in range(ROUNDS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def train(algorithm: str, budget: Budget = BUDGET, path: ExecutionPath = "loop", **hyperparameters: float) -> Any:
    """Return validation losses and scores of a run."""
    reference = importlib.import_module(f"tests.reference.{algorithm}")
    optimizer = registry.load("algorithms", algorithm).optimizers[0]
    [outcome] = engine.train(
        federation(), algorithm=algorithm, algorithm_options=getattr(reference, "OPTIONS", {}), path=path, seeds=[5],
        model=getattr(models, getattr(reference, "MODEL", "mlp"))(outputs=1), settings=[hyperparameters],
        budget=replace(budget, optimizer=optimizer),
    )  # fmt: skip
    return outcome.validation, outcome.scores


# --- equations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "options", "expected"),
    [
        ("constant", {}, [1, 1, 1, 1]),
        ("exponential", {}, [1, 1, 1, 1]),
        ("exponential", {"lr_decay": 0.5}, [1, 0.5, 0.25, 0.125]),
        ("step", {"lr_decay": 0.1, "decay_every": 2}, [1, 1, 0.1, 0.1]),
        ("step", {"lr_decay": 0.5, "decay_every": 1.5}, [1, 1, 0.5, 0.25]),  # floor(r / 1.5) = 0, 0, 1, 2
        ("cosine", {"lr_final": 0.0}, [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
        ("cosine", {"lr_final": 0.5}, [1, 0.75 + math.sqrt(0.125) / 2, 0.75, 0.75 - math.sqrt(0.125) / 2]),
        ("constant", {"warmup": 4}, [0.25, 0.5, 0.75, 1]),
        ("constant", {"warmup": 2}, [0.5, 1, 1, 1]),
        ("exponential", {"lr_decay": 0.5, "warmup": 2}, [0.5, 0.5, 0.25, 0.125]),
        ("step", {"lr_decay": 0.1, "decay_every": 2, "warmup": 4}, [0.25, 0.5, 0.075, 0.1]),
    ],
)
def test_a_schedule_equals_its_equation(schedule: str, options: dict[str, float], expected: list[float]) -> None:
    assert rates(schedule, options, rounds=4) == pytest.approx(expected)
    assert rates(schedule, options, LR, 4) == pytest.approx([LR * each for each in expected])


@pytest.mark.parametrize("schedule", TORCH)
def test_a_schedule_equals_torchs_scheduler(schedule: str) -> None:
    options, warm = TORCH[schedule][0], TORCH["constant"][0]
    expected = torch_rates(schedule)
    assert rates(schedule, options, LR) == pytest.approx(expected, rel=1e-5)
    if schedule != "constant":
        both = [a * b / LR for a, b in zip(expected, torch_rates("constant"), strict=True)]
        assert rates(schedule, options | warm, LR) == pytest.approx(both, rel=1e-5)


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("schedule", TORCH)
def test_fedavg_equals_a_plain_loop(schedule: Any, path: ExecutionPath) -> None:
    budget = Budget(rounds=ROUNDS, local_steps=2, batch_size=4, schedule=schedule)
    fed, model = federation(), models.mlp(outputs=1)
    server = floats(model)
    setting = {"lr": LR, **TORCH[schedule][0]}
    found = engine.run(
        fed, algorithm="fedavg", model=models.mlp(outputs=1), settings=[setting], seeds=[5], budget=budget, path=path
    )
    clients = sites(fed, budget, 5)
    for r, lr in enumerate(torch_rates(schedule)):
        trained = []
        for site in clients:
            load(model, server)
            optimizer = torch.optim.SGD(model.parameters(), lr)
            for x, y in site.batches[r]:
                step(optimizer, nn.functional.binary_cross_entropy(model(x), y))
            trained.append(floats(model))
        server = weighted_mean(trained, [site.samples for site in clients])
    rounds, personal = found.personal(0, 0, "latest")
    torch.testing.assert_close(rounds.run_batch.models[0].split(personal["w"]), server, rtol=1e-4, atol=1e-5)


class Factors:
    """The factors of a schedule in place of the decay of APPLE's reference loop: ``factors ** t`` is f(t)."""

    def __init__(self, schedule: str, options: dict[str, float], rounds: int) -> None:
        self.values = rates(schedule, options, rounds=rounds)

    def __pow__(self, t: int) -> float:
        return self.values[t]


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_every_learning_rate_of_an_algorithm_follows_the_schedule(path: ExecutionPath) -> None:
    """APPLE has a second learning rate, of its mixing weights."""
    budget = replace(BUDGET, schedule="cosine", optimizer="sgd")
    fed, setting = federation(), {**apple.SETTINGS[0], "lr_final": 0.1}
    del setting["lr_decay"]
    found = engine.run(fed, algorithm="apple", model=models.mlp(outputs=1), settings=[setting], seeds=[5],
                       budget=budget, path=path)  # fmt: skip
    hyper: dict[str, Any] = {**setting, "lr_decay": Factors("cosine", {"lr_final": 0.1}, budget.rounds)}
    trace = apple.run(
        sites(fed, budget, 5), models.mlp(outputs=1), rounds=budget.rounds, optimizer="sgd", hyper=hyper,
        loss=nn.functional.binary_cross_entropy,
    )  # fmt: skip
    [outcome] = found.outcomes
    torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(trace.validation), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        torch.tensor(outcome.traces["p"]), torch.tensor(trace.watched["p"]), rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", registry.catalogue("algorithms"))
def test_every_algorithm_has_schedules(algorithm: str) -> None:
    """Powers of two are exact, so schedules with equal learning rates give equal bits."""
    path: ExecutionPath = "stack" if len(algorithm) % 2 and algorithm != "central" else "loop"
    halved = train(algorithm, path=path, lr=0.05, lr_decay=0.5)
    stepped = train(algorithm, replace(BUDGET, schedule="step"), path, lr=0.05, lr_decay=0.5, decay_every=1)
    assert halved == stepped != train(algorithm, path=path, lr=0.05)


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("budget", [
    pytest.param(BUDGET, id="keyed"), pytest.param(TORCH_DRAWS, id="torch", marks=pytest.mark.slow),
])  # fmt: skip
def test_limits_are_the_constant_learning_rate(budget: Budget, path: ExecutionPath) -> None:
    expected = train("fedavg", budget, path, lr=0.05)
    limits: list[tuple[Any, dict[str, float]]] = [
        ("constant", {}), ("constant", {"warmup": 1}), ("exponential", {"lr_decay": 1.0}), ("cosine", {"lr_final": 1}),
        ("step", {"lr_decay": 1.0, "decay_every": 1}), ("step", {"lr_decay": 0.1, "decay_every": 3}),
    ]  # fmt: skip
    for schedule, options in limits:
        assert train("fedavg", replace(budget, schedule=schedule), path, lr=0.05, **options) == expected, schedule


# --- requests --------------------------------------------------------------------------------------------------------


def halved(budget: Budget, **more: Any) -> list[Outcome]:
    settings = [{"lr": 0.3, "warmup": 2.0}, {"lr": 1e-6, "warmup": 2.0}]
    return engine.train(
        federation(), algorithm="fedavg", model="mlp", settings=settings, seeds=[5], budget=budget, path="loop", **more
    )


def test_a_setting_dropped_by_halving_equals_a_shorter_run() -> None:
    budget = replace(BUDGET, rounds=4, schedule="step")
    dropped = next(each for each in halved(budget, rungs=(2, 4), reduction=2) if len(each.validation) == 2)
    assert dropped in halved(replace(budget, rounds=2))


@pytest.mark.parametrize(("asked", "message"), [
    (lambda: halved(replace(BUDGET, schedule="cosine"), rungs=(1, 3), reduction=2),
     "rungs: the cosine schedule depends on the number of rounds; use another schedule"),
    (lambda: replace(BUDGET, schedule="cosin"), "schedule = 'cosin': did you mean 'cosine'?"),
    (lambda: train("fedavg", replace(BUDGET, schedule="constant"), lr_decay=0.5),
     "fedavg with adamw and schedule 'constant' has no hyper-parameter 'lr_decay'"),
    (lambda: train("fedavg", lr_final=0.5), "fedavg with adamw has no hyper-parameter 'lr_final'"),
    (lambda: train("fedavg", warmup=0), "hyper-parameter warmup = 0: expected a finite number of at least 1"),
    (lambda: train("fedavg", replace(BUDGET, schedule="cosine"), lr_final=2),
     "hyper-parameter lr_final = 2: expected a finite number of at least 0 and at most 1"),
    (lambda: train("fedavg", replace(BUDGET, schedule="step"), decay_every=0.5),
     "hyper-parameter decay_every = 0.5: expected a finite number of at least 1"),
])  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused(asked: Callable[[], Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        asked()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
