"""Every algorithm equals its plain reference loop: several rounds, unequal clients, mini-batches, both paths.

The loop of an algorithm is in ``tests/reference/<name>.py`` with the SETTINGS to compare, and where they are not
the usual ones a MODEL (of ``tests/reference/models.py``), OPTIMIZER, OPTIONS of the algorithm and TUNING epochs.
"""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import torch
from torch import nn
from torch.nn import functional

from bench import registry
from bench.registry import catalogue
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget
from tests.reference import models
from tests.reference.common import Trace, load
from tests.train.toy import federation, sites

LOSSES = {"binary": functional.binary_cross_entropy, "multiclass": functional.cross_entropy}
CASES = {
    "steps of a binary task": ("binary", Budget(rounds=4, local_steps=7, batch_size=4, optimizer="adamw")),
    "epochs of a multi-class task": ("multiclass", Budget(rounds=3, local_epochs=2, batch_size=4, optimizer="sgd")),
    "full batches": ("binary", Budget(rounds=3, local_steps=2, batch_size="full", optimizer="sgd")),
}
FAST = "full batches"  # the case that `make test` includes
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


NAMES = [name for name in catalogue("algorithms") if name != "central"]


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("case", [pytest.param(case, marks=[] if case == FAST else pytest.mark.slow) for case in CASES])
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_reference_loop(name: str, case: str, path: ExecutionPath) -> None:
    reference = importlib.import_module(f"tests.reference.{name}")
    found, expected = _runs(reference, name, *CASES[case], path, settings=reference.SETTINGS, seeds=[5, 6])
    for number, trace in enumerate(expected):
        _compare(found, number, trace)


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_reference_loop_before_aggregation(name: str) -> None:
    """Evaluated as trained, with traced quantities and points of the learning curve after rounds 2 and 3."""
    reference = importlib.import_module(f"tests.reference.{name}")
    budget = Budget(rounds=3, local_steps=2, batch_size="full", evaluate="trained", test_every=2)
    path: ExecutionPath = "stack" if NAMES.index(name) % 2 else "loop"
    found, [trace] = _runs(reference, name, "binary", budget, path, settings=reference.SETTINGS[1:], seeds=[5])
    expected = trace.trained or trace
    _compare(found, 0, expected)
    [outcome] = found.outcomes
    assert outcome.curves["rounds"] == [2, 3]
    for point, number in zip(outcome.curves["scores"]["accuracy"], (1, 2), strict=True):
        states = expected.personal[number]
        if name != "apfl":  # whose personal model is two nets
            assert point == [_accuracy(reference, state, c) for c, state in enumerate(states)]
    assert outcome.traces.keys() == trace.watched.keys()
    for quantity, watched in trace.watched.items():
        torch.testing.assert_close(torch.tensor(outcome.traces[quantity]), torch.tensor(watched), **CLOSE)


def _runs(reference, name, task, budget, path, settings, seeds):
    """Our runs, and the traces of the reference loop for each of them."""
    kind = registry.load("algorithms", name)
    if budget.optimizer not in kind.optimizers:
        budget = dataclasses.replace(budget, optimizer=kind.optimizers[0])
    fed, model = federation(task), _model(reference, 1 if task == "binary" else 3)
    found = engine.run(
        fed, algorithm=name, algorithm_options=getattr(reference, "OPTIONS", {}), model=model,
        settings=settings, seeds=seeds, budget=budget, path=path,
    )  # fmt: skip
    return found, [
        reference.run(
            sites(fed, budget, outcome.seed, getattr(reference, "TUNING", 0)), model, rounds=budget.rounds,
            optimizer=budget.optimizer, hyper=dict(outcome.hyperparameters), loss=LOSSES[task],
        )
        for outcome in found.outcomes
    ]  # fmt: skip


def _model(reference, outputs: int) -> nn.Module:
    return getattr(models, getattr(reference, "MODEL", "mlp"))(outputs=outputs)


def _compare(found: engine.TrainedRuns, number: int, expected: Trace) -> None:
    outcome = found.outcomes[number]
    torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(expected.validation), **CLOSE)
    torch.testing.assert_close(torch.tensor(outcome.aggregated), torch.tensor(expected.aggregated), **CLOSE)
    for client, personal in enumerate(expected.personal[-1]):
        rounds, ours = found.personal(number, client, "latest")
        _same(rounds.run_batch.models[client], ours, personal)


def _accuracy(reference, state, client: int) -> float:
    """The share of the client's test samples that its personal model, a net with this state, gets right."""
    model, test = _model(reference, 1), federation().clients[client].test
    load(model, state.get("w", state))
    with torch.no_grad():
        return ((model.eval()(test.x) > 0.5) == (test.y > 0.5)).double().mean().item()


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
