"""Every algorithm equals its plain reference loop: several rounds, unequal clients, mini-batches, both paths."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch.nn import functional

from bench.train import engine
from bench.types import Budget
from tests.reference import models
from tests.train.toy import federation, sites

SETTINGS = {
    "local": [{"lr": 0.02}, {"lr": 0.005}],
    "fedavg": [{"lr": 0.02}, {"lr": 0.005}],
    "fedadam": [{"lr": 0.02, "server_lr": 0.1}, {"lr": 0.005, "server_lr": 0.01}],
    "fedprox": [{"lr": 0.02, "mu": 1.0}, {"lr": 0.005, "mu": 0.1}],
    "scaffold": [{"lr": 0.02, "server_lr": 1.0}, {"lr": 0.1, "server_lr": 0.3}],
    "moon": [{"lr": 0.02, "mu": 1.0}, {"lr": 0.005, "mu": 5.0}],
    "fedper": [{"lr": 0.02}, {"lr": 0.005}],
    "apfl": [{"lr": 0.02, "alpha_lr": 1.0}, {"lr": 0.005, "alpha_lr": 10.0}],
    "perfcl": [{"lr": 0.005, "mu": 1.0, "gamma": 5.0}, {"lr": 0.002, "mu": 5.0, "gamma": 1.0}],
    "fenda": [{"lr": 0.02}, {"lr": 0.005}],
}
LOSSES = {"binary": functional.binary_cross_entropy, "multiclass": functional.cross_entropy}
CASES = {
    "steps of a binary task": ("binary", Budget(rounds=4, local_steps=7, batch_size=4, optimizer="adamw")),
    "epochs of a multi-class task": ("multiclass", Budget(rounds=3, local_epochs=2, batch_size=4, optimizer="sgd")),
    "full batches": ("binary", Budget(rounds=3, local_steps=2, batch_size="full", optimizer="sgd")),
}


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_reference_loop(name: str, case: str, path: str) -> None:
    task, budget = CASES[case]
    if name == "scaffold":
        budget = Budget(**{**vars(budget), "optimizer": "sgd"})
    fed = federation(task)
    outputs = 1 if task == "binary" else 3
    make = models.parallel if name in ("perfcl", "fenda") else models.mlp
    model = make(outputs=outputs)
    found = engine.run(
        fed, algorithm=name, model=model, settings=SETTINGS[name], seeds=[5, 6], budget=budget, path=path
    )
    for number, outcome in enumerate(found.outcomes):
        reference = importlib.import_module(f"tests.reference.{name}").run(
            sites(fed, budget, outcome.seed), model, rounds=budget.rounds, optimizer=budget.optimizer,
            hyper=dict(outcome.hyperparameters), loss=LOSSES[task],
        )  # fmt: skip
        close = {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(reference.validation), **close)
        torch.testing.assert_close(torch.tensor(outcome.aggregated), torch.tensor(reference.aggregated), **close)
        for client, expected in enumerate(reference.personal[-1]):
            rounds, personal = found.personal(number, client, "latest")
            weights = rounds.population.models[client].split(personal["w"])
            if name == "apfl":
                local = rounds.population.models[client].split(personal["v"])
                torch.testing.assert_close(local, expected["local"], **close)
                assert float(personal["alpha"]) == pytest.approx(expected["alpha"], abs=1e-5)
                expected = expected["global"]
            torch.testing.assert_close(weights, expected, **close)
