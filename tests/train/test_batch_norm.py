"""Batch-norm on the loop path: running statistics are exchanged like weights, or are not kept (FedAdam)."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from bench.train import engine
from bench.types import Budget, SpecError
from tests.reference import models
from tests.train.toy import federation, sites

BUDGET = Budget(rounds=3, local_epochs=1, batch_size=5, optimizer="sgd")
SETTINGS = {
    "local": {"lr": 0.05},
    "fedavg": {"lr": 0.05},
    "fedadam": {"lr": 0.05, "server_lr": 0.05},
    "fedprox": {"lr": 0.05, "mu": 1.0},
    "scaffold": {"lr": 0.05, "server_lr": 0.5},
    "moon": {"lr": 0.05, "mu": 1.0},
    "fedper": {"lr": 0.05},
    "apfl": {"lr": 0.05, "alpha_lr": 1.0},
    "fenda": {"lr": 0.05},
    "perfcl": {"lr": 0.05, "mu": 1.0, "gamma": 1.0},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_reference_loop(name: str) -> None:
    fed = federation(sizes=(25, 15, 10), test=7)  # no batch of one sample: batch-norm cannot normalise it
    make = models.parallel if name in ("fenda", "perfcl") else models.mlp
    model = make(batch_norm=True)
    found = engine.run(fed, algorithm=name, model=model, settings=[SETTINGS[name]], seeds=[4], budget=BUDGET)
    [outcome] = found.outcomes
    assert outcome.path == "loop"
    reference = importlib.import_module(f"tests.reference.{name}").run(
        sites(fed, BUDGET, 4), model, rounds=BUDGET.rounds, optimizer="sgd", hyper=SETTINGS[name],
        loss=functional.binary_cross_entropy,
    )  # fmt: skip
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(reference.validation), **close)
    for client, expected in enumerate(reference.personal[-1]):
        rounds, personal = found.personal(0, client, "latest")
        weights = rounds.run_batch.models[client].split(personal["w"])
        if name == "apfl":
            local = rounds.run_batch.models[client].split(personal["v"])
            torch.testing.assert_close(local, expected["v"], **close)
            expected = expected["w"]
        if name == "fedadam":
            # The bias before batch-norm has no effect. Its gradient is rounding, which Adam scales to a full step.
            del weights["base.0.bias"], expected["base.0.bias"]
        torch.testing.assert_close(weights, expected, **close)
    statistics = [key for key in expected if key.endswith("running_var")]
    assert bool(statistics) == (name != "fedadam")


def test_stacking_it_is_refused() -> None:
    with pytest.raises(SpecError, match="batch-norm need path = 'loop'"):
        engine.run(
            federation(), algorithm="fedavg", model=models.mlp(batch_norm=True), settings=[{}], seeds=[0],
            budget=BUDGET, path="stack",
        )  # fmt: skip


def one_step(sizes: tuple[int, ...] = (22, 13), module: nn.Module | None = None, **budget: Any) -> engine.TrainedRuns:
    """Train for one round; a fifth of the samples, rounded down, is held out."""
    changes = {"local_epochs": 1, "batch_size": 4} | budget
    return engine.run(
        federation(sizes=sizes), algorithm="fedavg", model=module or models.mlp(batch_norm=True), settings=[{}],
        seeds=[3, 5], budget=Budget(rounds=1, **changes),
    )  # fmt: skip


def test_a_last_mini_batch_of_one_sample_is_refused_before_training() -> None:
    message = (
        "toy: client 'site 1': a mini-batch has one sample (9 training samples with seed 3), and batch-norm needs two "
        'or more; set last_batch = "drop" or "merge", or another batch_size'
    )
    with pytest.raises(SpecError, match=re.escape(message)):
        one_step(sizes=(22, 11))
    with pytest.raises(SpecError, match=r"set a larger batch_size$"):
        one_step(batch_size=1)
    with pytest.raises(SpecError, match=r"\(1 training samples .*; leave the client out, or use a model without batch"):
        one_step(sizes=(22, 1))


@pytest.mark.parametrize("last_batch", ["drop", "merge"])
def test_dropping_or_merging_the_last_mini_batch_trains(last_batch: str) -> None:
    found = one_step(sizes=(22, 11), last_batch=last_batch)
    assert [outcome.status for outcome in found.outcomes] == ["finished", "finished"]


def test_a_mini_batch_of_one_that_no_step_uses_is_accepted() -> None:
    assert one_step(sizes=(22, 11), local_epochs=None, local_steps=2).outcomes[0].status == "finished"


def test_a_single_picture_trains_batch_norm_over_its_places() -> None:
    pictures = nn.Sequential(
        nn.Unflatten(1, (1, 13, 1)), nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(26, 1)
    )
    assert one_step(sizes=(22, 11), module=pictures).outcomes[0].status == "finished"
