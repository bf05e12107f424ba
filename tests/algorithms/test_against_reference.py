"""Every algorithm equals its plain reference loop: several rounds, unequal clients, mini-batches, both paths.

The loop of an algorithm stands in ``tests/reference/<name>.py`` with the SETTINGS to compare, and where they are not
the usual ones a MODEL (of ``tests/reference/models.py``), OPTIMIZER, OPTIONS of the algorithm and TUNING epochs.
"""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import torch
from torch.nn import functional

from bench.registry import catalogue
from bench.train import engine
from bench.types import Budget
from tests.reference import models
from tests.train.toy import federation, sites

LOSSES = {"binary": functional.binary_cross_entropy, "multiclass": functional.cross_entropy}
CASES = {
    "steps of a binary task": ("binary", Budget(rounds=4, local_steps=7, batch_size=4, optimizer="adamw")),
    "epochs of a multi-class task": ("multiclass", Budget(rounds=3, local_epochs=2, batch_size=4, optimizer="sgd")),
    "full batches": ("binary", Budget(rounds=3, local_steps=2, batch_size="full", optimizer="sgd")),
}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [name for name in catalogue("algorithms") if name != "central"])
def test_equals_the_reference_loop(name: str, case: str, path: str) -> None:
    reference = importlib.import_module(f"tests.reference.{name}")
    task, budget = CASES[case]
    kind = engine.registry.load("algorithms", name)
    if budget.optimizer not in kind.optimizers:
        budget = dataclasses.replace(budget, optimizer=kind.optimizers[0])
    fed = federation(task)
    model = getattr(models, getattr(reference, "MODEL", "mlp"))(outputs=1 if task == "binary" else 3)
    found = engine.run(
        fed, algorithm=name, algorithm_options=getattr(reference, "OPTIONS", {}), model=model,
        settings=reference.SETTINGS, seeds=[5, 6], budget=budget, path=path,
    )  # fmt: skip
    for number, outcome in enumerate(found.outcomes):
        expected = reference.run(
            sites(fed, budget, outcome.seed, getattr(reference, "TUNING", 0)), model, rounds=budget.rounds,
            optimizer=budget.optimizer, hyper=dict(outcome.hyperparameters), loss=LOSSES[task],
        )  # fmt: skip
        torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(expected.validation), **CLOSE)
        torch.testing.assert_close(torch.tensor(outcome.aggregated), torch.tensor(expected.aggregated), **CLOSE)
        for client, personal in enumerate(expected.personal[-1]):
            rounds, ours = found.personal(number, client, "latest")
            _same(rounds.population.models[client], ours, personal)


def _same(model, ours, expected) -> None:
    """Our personal tree equals a state dict, or part by part a dictionary of state dicts and numbers."""
    if set(ours) == {"w"}:
        torch.testing.assert_close(model.split(ours["w"]), expected, **CLOSE)
        return
    assert set(ours) == set(expected)
    for part, value in ours.items():
        if isinstance(expected[part], dict):
            torch.testing.assert_close(model.split(value), expected[part], **CLOSE)
        else:
            torch.testing.assert_close(value, torch.as_tensor(expected[part], dtype=value.dtype), **CLOSE)
