"""Limits in which an algorithm equals another one, and small cases worked out by hand, all with the engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from bench.algorithms.fedadam import FedAdam
from bench.models.functional import Model
from bench.train import engine
from bench.types import Budget, Client, Federation, Outcome, SpecError, Split
from tests.reference import models
from tests.train.toy import federation

BUDGET = Budget(rounds=3, local_steps=4, batch_size=4, optimizer="adamw")
SGD = dataclasses.replace(BUDGET, optimizer="sgd")


def train(name: str, budget: Budget = BUDGET, fed: Federation | None = None, **setting: float) -> Outcome:
    """One run with a learning rate of 0.02; split and parallel models as the algorithm needs."""
    model: nn.Module = models.parallel() if name in ("fenda", "perfcl") else models.mlp()
    [outcome] = engine.train(
        fed or federation(), algorithm=name, model=model, settings=[{"lr": 0.02} | setting], seeds=[2],
        budget=budget, path="stack",
    )  # fmt: skip
    return outcome


def assert_same(one: Outcome, other: Outcome) -> None:
    """Equal validation losses in every round, and equal scores."""
    torch.testing.assert_close(torch.tensor(one.validation), torch.tensor(other.validation), rtol=1e-5, atol=1e-6)
    assert one.scores == other.scores


@pytest.mark.parametrize(
    ("name", "zeros", "limit"),
    [
        ("fedprox", {"mu": 0.0}, "fedavg"),
        ("moon", {"mu": 0.0}, "fedavg"),
        ("perfcl", {"mu": 0.0, "gamma": 0.0}, "fenda"),
        ("apfl", {"alpha": 0.0, "alpha_lr": 0.0}, "fedavg"),
        ("apfl", {"alpha": 1.0, "alpha_lr": 0.0}, "local"),
    ],
)
def test_limits_in_a_hyperparameter(name: str, zeros: dict[str, float], limit: str) -> None:
    one, other = train(name, **zeros), train(limit)
    own = tuple(score for score in other.scores if score[1] == score[2])  # local models are tested everywhere
    assert_same(one, dataclasses.replace(other, scores=own))


@pytest.mark.parametrize("name", ["fedprox", "moon", "perfcl"])
def test_away_from_the_limit_they_differ(name: str) -> None:
    strong = {"fedprox": {"mu": 1.0}, "moon": {"mu": 5.0}, "perfcl": {"mu": 5.0, "gamma": 5.0}}[name]
    none = dict.fromkeys(strong, 0.0)
    assert train(name, **strong).validation[-1] != train(name, **none).validation[-1]


@pytest.mark.parametrize("name", ["local", "fedavg", "fedper"])
def test_a_single_client_is_central_training(name: str) -> None:
    alone = federation(sizes=(23,))
    assert_same(train(name, fed=alone), train("central", fed=alone))


def test_nothing_shared_is_refused() -> None:
    with pytest.raises(SpecError, match="fedper shares no weight of this model"):
        engine.train(
            federation(), algorithm="fedper", model="logistic", settings=[{}], seeds=[0], budget=BUDGET, path="stack"
        )


def test_scaffold_begins_as_fedavg() -> None:
    equal, first = federation(sizes=(12, 12, 12)), dataclasses.replace(SGD, rounds=1)
    assert_same(train("scaffold", first, equal, server_lr=1.0), train("fedavg", first, equal))
    scaffold, fedavg = train("scaffold", SGD, equal, server_lr=1.0), train("fedavg", SGD, equal)
    assert scaffold.validation[1] != fedavg.validation[1]


def test_fedadam_drifts_below_zero() -> None:
    # FENDA-FL, appendix H: every client returns 0.1, the server begins at 2; beta_2 = 0.9 in this example.
    class Example(FedAdam):
        beta2 = 0.9

    server = Example(server_lr=0.1).init_server(torch.full((2, 1), 2.0, dtype=torch.float64))
    path = []
    for _ in range(30):
        uploads = {"w": torch.full((2, 1), 0.1, dtype=torch.float64)}
        server = Example(server_lr=0.1).aggregate(server, uploads, torch.tensor([0.25, 0.75], dtype=torch.float64))
        path.append(server["w"].item())
    # First round: Delta = -1.9, m = -0.19, v = 0.361, x = 2 - 0.1 * 0.19 / sqrt(0.361).
    assert path[0] == pytest.approx(2 - 0.1 * 0.19 / 0.361**0.5, abs=1e-6)
    assert path[29] == pytest.approx(-0.2046, abs=5e-5)


def line(slope: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, slope)
    return layer


def two_clients() -> Federation:
    """A with one sample x = 1 of class 1, B with three samples x = 2 of class 0; tested on x = 1 of class 1."""
    test = Split(torch.ones(1, 1), torch.ones(1, 1))
    a = Client("A", Split(torch.ones(1, 1), torch.ones(1, 1)), test)
    b = Client("B", Split(torch.full((3, 1), 2.0), torch.zeros(3, 1)), test)
    return Federation("two clients", (a, b), "binary")


def by_hand(name: str, rounds: int, **setting: float) -> Any:
    budget = Budget(rounds=rounds, local_steps=1, batch_size="full", optimizer="sgd", validation=0.0)
    return engine.run(
        two_clients(), algorithm=name, model=line(0.0), settings=[{"lr": 0.5} | setting], seeds=[0],
        budget=budget, path="stack",
    )  # fmt: skip


# The model's logit is w x, so the gradient of a sample is x (sigmoid(w x) - y).
# Round 1 from w = 0:  A: 1 (0.5 - 1) = -0.5, so w_A = 0.25.  B: 2 (0.5 - 0) = 1, so w_B = -0.5.
W_A, W_B = 0.25, -0.5


def test_fedavg_by_hand() -> None:
    # Weights 1 : 3 give (0.25 + 3 * -0.5) / 4 = -0.3125.
    # Round 2: A: sigmoid(-0.3125) - 1 = -0.577495, w_A = -0.023752.  B: 2 sigmoid(-0.625) = 0.697291,
    # w_B = -0.661145.  Mean (-0.023752 + 3 * -0.661145) / 4 = -0.501797.
    for rounds, expected in ((1, -0.3125), (2, -0.501797)):
        found = by_hand("fedavg", rounds)
        for client in (0, 1):
            assert found.personal(0, client, "latest")[1]["w"].item() == pytest.approx(expected, abs=1e-6)
        # x = 1 of class 1 gets a probability below a half.
        assert [score[-1] for score in found.outcomes[0].scores] == [0.0, 0.0]


def test_local_by_hand() -> None:
    found = by_hand("local", 1)
    assert [found.personal(0, client, "latest")[1]["w"].item() for client in (0, 1)] == pytest.approx([W_A, W_B])
    # (model, client): A's model is right on both clients' test sample, B's on none.
    assert {score[1:3]: score[-1] for score in found.outcomes[0].scores} == {
        (0, 0): 1.0, (0, 1): 1.0, (1, 0): 0.0, (1, 1): 0.0
    }  # fmt: skip


def test_central_by_hand() -> None:
    # Four samples pooled: (-0.5 + 3 * 1) / 4 = 0.625, w = -0.3125.
    [score_a, score_b] = by_hand("central", 1).outcomes[0].scores
    assert by_hand("central", 1).personal(0, 1, "latest")[1]["w"].item() == pytest.approx(-0.3125)
    assert (score_a[1:3], score_b[1:3]) == ((0, 0), (0, 1))


def test_fedprox_by_hand() -> None:
    # The first step starts at the received weights, where the pull is 0: as FedAvg.  Two steps in the round:
    # A at 0.25: sigmoid(0.25) - 1 = -0.437823, and 2 * 0.25 = 0.5 of pull: w_A = 0.25 - 0.5 * 0.062177 = 0.218912.
    # B at -0.5: 2 sigmoid(-1) = 0.537883, pull 2 * -0.5 = -1: w_B = -0.5 + 0.5 * 0.462117 = -0.268941.
    budget = Budget(rounds=1, local_steps=2, batch_size="full", optimizer="sgd", validation=0.0)
    found = engine.run(
        two_clients(), algorithm="fedprox", model=line(0.0), settings=[{"lr": 0.5, "mu": 2.0}], seeds=[0],
        budget=budget, path="stack",
    )  # fmt: skip
    expected = (0.218912 + 3 * -0.268941) / 4
    assert found.server(0)[1]["w"].item() == pytest.approx(expected, abs=1e-6)


def test_scaffold_by_hand() -> None:
    # Uniform: x = (0.25 - 0.5) / 2 = -0.125 after round 1, with c_A = -0.5, c_B = 1 (each client's gradient), c = 0.25.
    # Round 2: A: g = sigmoid(-0.125) - 1 = -0.531209, corrected by 0.25 + 0.5: 0.218791, y = -0.234395.
    # B: g = 2 sigmoid(-0.25) = 0.875647, corrected by 0.25 - 1: 0.125647, y = -0.187823.  Mean -0.211109.
    assert by_hand("scaffold", 1).server(0)[1]["w"].item() == pytest.approx(-0.125)
    assert by_hand("scaffold", 1).server(0)[1]["c"].item() == pytest.approx(0.25)
    assert by_hand("scaffold", 2).server(0)[1]["w"].item() == pytest.approx(-0.211109, abs=1e-6)


def test_fedadam_by_hand() -> None:
    # Delta = -0.3125 (FedAvg's step), m = 0.1 Delta, v = 0.01 Delta^2: x = -server_lr.
    assert by_hand("fedadam", 1, server_lr=0.3).server(0)[1]["w"].item() == pytest.approx(-0.3, abs=1e-6)


def test_communication_counts_what_travels() -> None:
    split, parallel = Model(models.mlp()), Model(models.parallel())
    d, base = split.size, 13 * 5 + 5
    assert parallel.size == 2 * base + 11
    expected = {
        "local": (0, 0), "fedavg": (d, d), "fedprox": (d, d), "fedadam": (d, d), "moon": (d, d),
        "scaffold": (2 * d, 2 * d), "fedper": (base, base), "apfl": (d, d), "fenda": (base, base),
        "perfcl": (base, base), "central": (0, 0),
    }  # fmt: skip
    one_round = dataclasses.replace(SGD, rounds=1, local_steps=1)
    found = {name: train(name, one_round).communication for name in expected}
    assert found == {name: {"up": up, "down": down} for name, (up, down) in expected.items()}
