"""Ditto, pFedMe and Per-FedAvg: variants against their reference loops, cases worked by hand, and limits."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench import settings
from bench.algorithms.pfedme import PFedMe
from bench.train import engine
from bench.types import Budget, SpecError
from tests.algorithms.test_limits import BUDGET, SGD, W_A, W_B, assert_same, line, train, two_clients
from tests.reference import models
from tests.train.toy import federation, sites

ONE_STEP = Budget(rounds=1, local_steps=1, batch_size="full", optimizer="sgd", validation=0.0)


def run(name: str, budget: Budget, options: dict[str, Any] | None = None, *, equal: bool = False, **setting: float):
    """Three clients of unequal or equal sizes and a small network."""
    fed = federation(sizes=(12, 12, 12)) if equal else federation()
    return engine.run(
        fed, algorithm=name, algorithm_options=options, model=models.mlp(), settings=[{"lr": 0.02} | setting],
        seeds=[2], budget=budget, path="stack",
    )  # fmt: skip


def by_hand(name: str, budget: Budget = ONE_STEP, options: dict[str, Any] | None = None, **setting: float):
    """Client A (x = 1, class 1) and B (three times x = 2, class 0); the logit is w x from w = 0."""
    found = engine.run(
        two_clients(), algorithm=name, algorithm_options=options, model=line(0.0), settings=[{"lr": 0.5} | setting],
        seeds=[0], budget=budget, path="stack",
    )  # fmt: skip
    personal = [found.personal(0, client, "latest")[1]["w"].item() for client in (0, 1)]
    return personal, found.server(0)[1]["w"].item()


def s(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ditto", {"average_personal": True}),
        ("pfedme", {"simplified": True}),
        ("pfedme", {"inner_steps": 2}),
        ("per_fedavg", {"hessian_free": True}),
        ("fedbabu", {"head_only": True}),
        ("fedrep", {"head_epochs": 1, "base_epochs": 2}),
    ],
)
def test_variants_equal_their_reference_loops(name: str, options: dict[str, Any]) -> None:
    reference = importlib.import_module(f"tests.reference.{name}")
    optimizer = "sgd" if name == "pfedme" else "adamw"
    budget = Budget(rounds=3, local_epochs=1, batch_size=4, optimizer=optimizer)
    found = engine.run(
        federation(), algorithm=name, algorithm_options=options, model=models.mlp(), settings=reference.SETTINGS,
        seeds=[5], budget=budget,
    )  # fmt: skip
    for number, outcome in enumerate(found.outcomes):
        expected = reference.run(
            sites(federation(), budget, 5, getattr(reference, "TUNING", 0)), models.mlp(), rounds=3,
            optimizer=optimizer, hyper=dict(outcome.hyperparameters), loss=functional.binary_cross_entropy, **options,
        )  # fmt: skip
        close = {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(expected.validation), **close)
        for client, state in enumerate(expected.personal[-1]):
            rounds, personal = found.personal(number, client, "latest")
            torch.testing.assert_close(rounds.run_batch.models[client].split(personal["w"]), state, **close)


@pytest.mark.parametrize("name", ["ditto", "pfedme", "per_fedavg"])
def test_what_travels(name: str) -> None:
    d = 13 * 5 + 5 + 5 + 1
    assert run(name, dataclasses.replace(SGD, rounds=1)).outcomes[0].communication == {"up": d, "down": d}


# Ditto ---------------------------------------------------------------------------------------------------------


def test_ditto_without_pull_is_local() -> None:
    local = train("local")
    own = tuple(score for score in local.scores if score[1] == score[2])
    assert_same(train("ditto", lam=0.0), dataclasses.replace(local, scores=own))
    assert train("ditto", lam=1.0).validation[-1] != local.validation[-1]


def test_ditto_trains_fedavg_beside() -> None:
    server = [run(name, BUDGET).server(0)[1]["w"] for name in ("ditto", "fedavg")]
    torch.testing.assert_close(*server)


def test_ditto_by_hand() -> None:
    # Round 1 begins with no pull: v = W_A, W_B, and the server has -0.3125 (FedAvg). Round 2, lam = 2:
    # A: gradient s(0.25) - 1, pull 2 (0.25 + 0.3125).  B: gradient 2 s(2 * -0.5), pull 2 (-0.5 + 0.3125).
    v_a = W_A - 0.5 * (s(0.25) - 1 + 2 * 0.5625)
    v_b = W_B - 0.5 * (2 * s(-1) - 2 * 0.1875)
    personal, _ = by_hand("ditto", dataclasses.replace(ONE_STEP, rounds=2), lam=2.0)
    assert personal == pytest.approx([v_a, v_b], abs=1e-6)


# pFedMe --------------------------------------------------------------------------------------------------------


def test_pfedme_by_hand() -> None:
    # lam = 2, K = 2. A: theta = 0.25, then 0.25 - 0.5 (s(0.25) - 1 + 2 * 0.25); w_A = 0.1 * 2 * theta.
    # B: theta = -0.5, then -0.5 - 0.5 (2 s(-1) + 2 * -0.5).
    theta_a = 0.25 - 0.5 * (s(0.25) - 1 + 0.5)
    theta_b = -0.5 - 0.5 * (2 * s(-1) - 1)
    personal, server = by_hand("pfedme", options={"inner_steps": 2}, lam=2.0, eta=0.1, beta=1.5)
    assert personal == pytest.approx([theta_a, theta_b], abs=1e-6)
    assert server == pytest.approx(1.5 * (0.2 * theta_a + 0.2 * theta_b) / 2, abs=1e-6)


def test_pfedme_with_beta_0_never_moves_the_server() -> None:
    still = run("pfedme", SGD, beta=0.0)
    rounds, server = still.server(0)
    assert torch.equal(server["w"], rounds.run_batch.models[0].initial)


def test_pfedme_with_one_inner_step_is_fedavg() -> None:
    # theta = w - lr g, so w moves by eta lam lr g; the server's mean is uniform.
    moreau = run("pfedme", SGD, {"inner_steps": 1}, equal=True, lam=5.0, eta=0.1, lr=0.1)
    fedavg = run("fedavg", SGD, equal=True, lr=0.05)
    torch.testing.assert_close(moreau.server(0)[1]["w"], fedavg.server(0)[1]["w"])


def test_pfedme_with_many_inner_steps_finds_the_proximal_point() -> None:
    # At the envelope's minimiser the gradient is lam (w - theta), so w_A moves by eta times the gradient there.
    (theta_a, theta_b), server = by_hand("pfedme", options={"inner_steps": 60}, lam=2.0, eta=0.1, lr=0.2)
    slope_a, slope_b = s(theta_a) - 1, 2 * s(2 * theta_b)
    assert [2 * -theta_a, 2 * -theta_b] == pytest.approx([slope_a, slope_b], abs=1e-5)
    assert server == pytest.approx(-0.1 * (slope_a + slope_b) / 2, abs=1e-5)


def test_pfedme_simplified_is_ditto_as_player_fl_ran_it() -> None:
    simplified = run("pfedme", SGD, {"simplified": True}, lam=0.1)
    ditto = run("ditto", SGD, {"average_personal": True}, lam=0.1)
    assert_same(simplified.outcomes[0], ditto.outcomes[0])


def test_pfedme_takes_plain_steps_only() -> None:
    with pytest.raises(SpecError, match="pfedme is defined for optimizer sgd"):
        settings.resolve("pfedme", "adamw", {})
    with pytest.raises(SpecError, match="no hyper-parameter 'momentum'"):
        settings.resolve("pfedme", "sgd", {"momentum": 0.9})


def test_pfedme_averages_uniformly_unless_simplified() -> None:
    uploads, weights = {"w": torch.tensor([[1.0], [3.0]])}, torch.tensor([0.75, 0.25])
    server = {"w": torch.zeros(1)}
    assert PFedMe(beta=1.0).aggregate(server, uploads, weights)["w"].item() == 2.0
    assert PFedMe(simplified=True).aggregate(server, uploads, weights)["w"].item() == 1.5


# Per-FedAvg ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hessian_free", [False, True])
def test_per_fedavg_by_hand(hessian_free: bool) -> None:
    # All samples of a client are equal, so that parts do not matter. alpha = 0.2:
    # A: u = 0 - 0.2 * -0.5 = 0.1; g(u) = s(0.1) - 1; H(0) = 0.25.
    # B: u = 0 - 0.2 * 1 = -0.2;   g(u) = 2 s(-0.4);  H(0) = 4 * 0.25.
    scale_a, scale_b = (1 - 0.2 * 0.25, 1 - 0.2) if hessian_free else (1, 1)
    w_a, w_b = -0.5 * scale_a * (s(0.1) - 1), -0.5 * scale_b * 2 * s(-0.4)
    mean = (w_a + w_b) / 2
    personal, server = by_hand("per_fedavg", options={"hessian_free": hessian_free}, alpha=0.2)
    assert server == pytest.approx(mean, abs=1e-5)
    assert personal == pytest.approx([mean - 0.2 * (s(mean) - 1), mean - 0.2 * 2 * s(2 * mean)], abs=1e-5)


def test_per_fedavg_without_inner_steps_is_fedavg_on_equal_samples() -> None:
    (first, second), server = by_hand("per_fedavg", alpha=0.0)
    assert first == second == server == pytest.approx((W_A + W_B) / 2)


def test_per_fedavg_adapts_by_a_single_step() -> None:
    # An epoch is several mini-batches; with alpha = 0 in training the personal model is one step away.
    found = run("per_fedavg", dataclasses.replace(SGD, rounds=1), alpha=0.3)
    rounds, server = found.server(0)
    model = rounds.run_batch.models[0]
    [first, *rest] = sites(federation(), dataclasses.replace(SGD, rounds=1), 2, tuning=1)[0].tuning[0]
    assert rest
    x, y = first
    w = server["w"].clone().requires_grad_()
    functional.binary_cross_entropy(model(w, x).output, y).backward()
    torch.testing.assert_close(found.personal(0, 0, "latest")[1]["w"], w.detach() - 0.3 * w.grad)
