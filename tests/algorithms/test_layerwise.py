"""Algorithms that decide layer by layer: which layers, by hand, and where they become FedAvg, FedPer or local."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.algorithms.base import Site
from bench.algorithms.fedlama import FedLAMA
from bench.algorithms.fedlp import FedLP
from bench.algorithms.pfedla import PFedLA, layer_weights, mix
from bench.algorithms.player_fl import PLayerFL
from bench.algorithms.player_fl_random import PLayerFLRandom
from bench.models.functional import Model
from bench.train import engine
from bench.types import Budget, Outcome
from tests.reference import models
from tests.train.toy import federation

BUDGET = Budget(rounds=4, local_steps=3, batch_size=4, optimizer="adamw")


def run(
    name: str, options: dict[str, Any] | None = None, sizes: tuple[int, ...] = (23, 11, 6), **setting: float
) -> Any:
    return engine.run(
        federation(sizes=sizes), algorithm=name, algorithm_options=options, model=models.deep(),
        settings=[{"lr": 0.02} | setting], seeds=[2], budget=BUDGET, path="stack",
    )  # fmt: skip


def assert_same(one: Outcome, other: Outcome) -> None:
    torch.testing.assert_close(torch.tensor(one.validation), torch.tensor(other.validation), rtol=1e-5, atol=1e-6)
    own = tuple(score for score in other.scores if score[1] == score[2])  # local models are tested everywhere
    assert one.scores == own


@pytest.mark.parametrize(
    ("name", "options", "setting", "limit"),
    [
        ("player_fl", {}, {"threshold": 1e9}, "fedavg"),
        ("player_fl", {"layers": 3}, {}, "fedavg"),
        ("player_fl", {"layers": 2}, {}, "fedper"),
        ("player_fl", {"layers": 2, "shift": 1}, {}, "fedavg"),
        ("player_fl", {"layers": 0}, {}, "local"),
        ("player_fl", {"shift": -1}, {"threshold": 0.5}, "local"),
        ("player_fl_random", {"layers": 1}, {}, "fedper"),  # of one to two layers without one, two are left
        ("fedlp", {}, {"p": 1.0}, "fedavg"),
        ("fedlama", {"interval": 1, "factor": 1}, {}, "fedavg"),
        ("fedlama", {"interval": 9, "factor": 1}, {}, "local"),  # not due in four rounds
    ],
)
def test_limits(name: str, options: dict[str, Any], setting: dict[str, float], limit: str) -> None:
    assert_same(run(name, options, **setting).outcomes[0], run(limit).outcomes[0])


@pytest.mark.parametrize("name", ["player_fl", "player_fl_random", "fedlp", "fedlama", "pfedla"])
def test_a_single_client_is_local_training(name: str) -> None:
    setting = {"p": 1.0} if name == "fedlp" else {}
    assert_same(run(name, sizes=(23,), **setting).outcomes[0], run("local", sizes=(23,)).outcomes[0])


@pytest.mark.parametrize(
    ("name", "options", "setting", "up", "down"),
    [
        # Layers of 70, 30 and 6 weights, four rounds: all in the first, then what is federated.
        ("player_fl", {"layers": 2}, {}, (106 + 3 * 100) / 4, (106 + 3 * 100) / 4),
        ("player_fl", {"layers": 0}, {}, 106 / 4, 106 / 4),
        ("fedlp", {}, {"p": 1.0}, 106, 106),
        ("fedlp", {}, {"p": 0.0}, 0, 106),
        ("fedlama", {"interval": 1, "factor": 1}, {}, 106, 106),
        ("fedlama", {"interval": 2, "factor": 1}, {}, 106 / 2, 106 / 2),  # due in rounds 0, 2, and sent after 1, 3
        ("pfedla", {}, {}, 106, 106),
    ],
)
def test_what_is_counted_as_travelling(
    name: str, options: dict[str, Any], setting: dict[str, float], up: float, down: float
) -> None:
    assert run(name, options, **setting).outcomes[0].communication == {"up": up, "down": down}


# --- PLayer-FL -------------------------------------------------------------------------------------------------------


def first_decision(algorithm: PLayerFL, *sensitivities: list[float], draws: list[float] | None = None) -> int:
    """The number of layers federated after round one, given the clients' F_l."""
    clients = len(sensitivities)
    uploads = {"w": torch.zeros(clients, 4), "sensitivity": torch.tensor(sensitivities)}
    if draws:
        uploads["draws"] = torch.tensor([draws, *[[0.0] * len(draws)] * (clients - 1)])
    server = algorithm.init_server(torch.zeros(clients, 4))
    return int(algorithm.aggregate(server, uploads, torch.full((clients,), 1 / clients))["p"])


@pytest.mark.parametrize(
    ("threshold", "p"),
    # Summed over clients: F = (4, 6, 6.6, 33), ratios 1.5, 1.1, 5.
    [(1.05, 1), (1.4, 1), (1.6, 3), (4.9, 3), (5.1, 4)],
)
def test_the_transition_is_the_first_jump_of_the_sum(threshold: float, p: int) -> None:
    assert first_decision(PLayerFL(threshold=threshold), [1.0, 2.0, 2.2, 3.0], [3.0, 4.0, 4.4, 30.0]) == p


@pytest.mark.parametrize(("shift", "p"), [(-1, 2), (1, 4), (5, 4), (-9, 0)])
def test_one_layer_fewer_or_more(shift: int, p: int) -> None:
    assert first_decision(PLayerFL(threshold=1.6, shift=shift), [4.0, 6.0, 6.6, 33.0]) == p


def test_the_decision_is_made_once() -> None:
    algorithm = PLayerFL(threshold=2.0)
    server = {"w": torch.zeros(4), "p": torch.tensor(2)}
    uploads = {"w": torch.zeros(1, 4), "sensitivity": torch.tensor([[1.0, 9.0, 9.0]])}
    assert int(algorithm.aggregate(server, uploads, torch.ones(1))["p"]) == 2


@pytest.mark.parametrize(
    ("sensitivity", "draws", "p"),
    [
        ([1.0, 1.0, 9.0, 9.0], [0.1, 0.9, 0.5, 0.99], 3),  # PLayer-FL's own 2 and all 4 are left out
        ([1.0, 1.0, 9.0, 9.0], [0.6, 0.9, 0.5, 0.99], 1),
        ([1.0, 1.0, 1.0, 1.0], [0.6, 0.9, 0.5, 0.99], 2),  # its own is all
        ([1.0, 9.0], [0.5, 0.5], 1),  # nothing else to draw
        ([1.0, 1.0], [0.5, 0.5], 1),
        ([1.0], [0.5], 1),
    ],
)
def test_random_layers(sensitivity: list[float], draws: list[float], p: int) -> None:
    algorithm = PLayerFLRandom(threshold=2.0)
    assert first_decision(algorithm, sensitivity, [0.0] * len(sensitivity), draws=draws) == p


def test_random_layers_differ_between_seeds_and_not_between_settings() -> None:
    found = engine.run(
        federation(), algorithm="player_fl_random", algorithm_options={"layers": 3}, model=models.deep(),
        settings=[{"lr": 0.02}, {"lr": 0.002}], seeds=list(range(8)), budget=dataclasses.replace(BUDGET, rounds=1),
        path="stack",
    )  # fmt: skip
    p = torch.tensor([int(found.server(number)[1]["p"]) for number in range(16)]).view(2, 8)
    assert torch.equal(p[0], p[1])
    assert set(p[0].tolist()) == {1, 2}


# --- FedLP and FedLAMA -----------------------------------------------------------------------------------------------


def test_fedlp_averages_over_those_who_kept_a_layer() -> None:
    # Three weights, each a layer; samples 1 : 3. Both, only the second, nobody.
    uploads = {
        "w": torch.tensor([[4.0, 4.0, 4.0], [8.0, 8.0, 8.0]]),
        "kept": torch.tensor([[1.0, 0, 0], [1.0, 1.0, 0]]),
    }
    server = FedLP().aggregate({"w": torch.full((3,), 5.0)}, uploads, torch.tensor([0.25, 0.75]))
    assert server["w"].tolist() == [7.0, 8.0, 5.0]


def site(module: nn.Module, **facts: Any) -> Any:
    """Return the parts of a site that hooks between local steps use."""

    class Here:
        model = Model(module)
        trained = Site.trained

    for name, value in facts.items():
        setattr(Here, name, value)
    return Here()


def test_fedlp_keeps_layers_with_probability_p() -> None:
    here = site(models.deep())
    client = {"w": here.model.initial}
    kept = []
    for key in range(400):
        here.key = torch.tensor(key)
        mask = FedLP(p=torch.tensor(0.3)).end(client, {}, here)[1]["kept"]
        sums = here.model.layer_sums(mask)
        # Weight and bias of a layer stay together.
        assert bool(((sums == 0) | (sums == here.model.layer_sums(torch.ones_like(mask)))).all())
        kept.append(sums > 0)
    share = torch.stack(kept).float().mean(0)
    assert bool(((share - 0.3).abs() < 5 * (0.21 / 400) ** 0.5).all())


def four_layers() -> nn.Module:
    """Layers of 2, 2, 4 and 2 weights."""
    return nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 2), nn.Linear(1, 1))


def spread(*per_layer: float) -> Tensor:
    return Model(four_layers()).by_layer(torch.tensor(per_layer, dtype=torch.float32))


@pytest.mark.parametrize(
    ("discrepancy", "tau", "expected"),
    [
        # d = (1, 8, 2, 3); in order layers 0, 2, 3, 1 of 2, 4, 2, 2 weights: d dim = 2, 8, 6, 16 of 32.
        # delta = 1/16, 5/16, 1/2, 1 against 1 - lambda = 0.8, 0.4, 0.2, 0: the first two.
        ((1.0, 8.0, 2.0, 3.0), (1, 1, 1, 1), (3, 1, 3, 1)),
        # Layer 1 gathered its spread over three rounds: d = (1, 8/3, 2, 3), order 0, 2, 1, 3; d dim = 2, 8, 16/3, 6 of
        # 64/3: delta = 0.09, 0.47: only the first is below 0.8, 0.4.
        ((1.0, 8.0, 2.0, 3.0), (1, 3, 1, 1), (3, 1, 1, 1)),
        # Clients that agree (or a single one) leave nothing to tell layers apart by: the base interval.
        ((0.0, 0.0, 0.0, 0.0), (1, 1, 1, 1), (1, 1, 1, 1)),
    ],
)
def test_fedlama_intervals_by_hand(
    discrepancy: tuple[float, ...], tau: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    algorithm = FedLAMA(interval=1, factor=3)
    found = algorithm.intervals(spread(*discrepancy), torch.tensor(tau), site(four_layers()))
    assert tuple(found.tolist()) == expected


def test_fedlama_layers_that_are_not_due_keep_their_own_weights() -> None:
    algorithm, here = FedLAMA(interval=1, factor=3), site(four_layers())
    client = {"w": spread(10, 20, 30, 40), "tau": torch.tensor([3, 1, 3, 1])}
    server = {"w": spread(1, 2, 3, 4), "spread": spread(3, 2, 8, 1)}
    between = algorithm.start(client, {**server, "rounds": torch.tensor(4)}, here)
    assert torch.equal(between["w"], spread(10, 2, 30, 4))
    assert between["tau"].tolist() == [3, 1, 3, 1]
    # After six rounds all are due, and intervals change: d = (1, 2, 8/3, 1).
    sixth = algorithm.start(client, {**server, "rounds": torch.tensor(6)}, here)
    assert torch.equal(sixth["w"], spread(1, 2, 3, 4))
    assert sixth["tau"].tolist() == [3, 1, 1, 3]


def test_fedlama_measures_the_spread_around_the_average() -> None:
    # Samples 1 : 3: average 3, and 0.25 * 9 + 0.75 * 1.
    uploads = {"w": torch.tensor([[0.0], [4.0]]), "due": torch.ones(2, 1)}
    server = FedLAMA().aggregate(FedLAMA().init_server(torch.zeros(2, 1)), uploads, torch.tensor([0.25, 0.75]))
    assert (server["w"].item(), server["spread"].item(), int(server["rounds"])) == (3.0, 3.0, 1)


def test_a_stale_server_throws_local_training_away() -> None:
    """PLayer-FL's form with interval 2: after the first round everybody is back at the initial weights."""
    for stale in (True, False):
        found = engine.run(
            federation(), algorithm="fedlama", algorithm_options={"interval": 2, "factor": 1, "stale": stale},
            model=models.deep(), settings=[{"lr": 0.02}], seeds=[2], budget=dataclasses.replace(BUDGET, rounds=1),
        )  # fmt: skip
        rounds, personal = found.personal(0, 1, "latest")
        assert torch.equal(personal["w"], rounds.run_batch.models[1].initial) is stale


# --- pFedLA ----------------------------------------------------------------------------------------------------------


def test_mixtures_are_taken_layer_by_layer() -> None:
    model = Model(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    alpha = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    theta = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    assert mix(alpha, theta, model).tolist() == [4.0, 5.0, 3.0, 4.0]


def test_size_of_a_hypernetwork() -> None:
    # PLayer-FL's code holds 12,345 numbers for 5 clients and 5 layers: 5 embeddings of 32 under one network.
    here = site(
        nn.Sequential(*(nn.Linear(1, 1) for _ in range(5))), clients=5, key=torch.tensor(3),
        optimizer=type("None", (), {"init": staticmethod(lambda w: {})}),
    )  # fmt: skip
    hyper = PFedLA().init_client(here.model.initial, here)["hyper"]
    assert sum(value.numel() for value in hyper.values()) == 12_345 - 4 * 32
    alpha = layer_weights(hyper)
    assert alpha.shape == (5, 5)
    torch.testing.assert_close(alpha.sum(1), torch.ones(5))
    # Layers have networks of their own, begun apart.
    assert not torch.allclose(alpha[0], alpha[1])


def test_the_hypernetwork_goes_where_training_went() -> None:
    """Client 0's training moves every layer towards client 1's model, away from client 2's: so do the weights."""
    torch.manual_seed(0)
    here = site(
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), clients=3, key=torch.tensor(3),
        optimizer=type("None", (), {"init": staticmethod(lambda w: {})}),
    )  # fmt: skip
    algorithm = PFedLA(hn_lr=0.1, embedding=4, hidden=6)
    theta = torch.randn(3, here.model.size)
    client = algorithm.start(algorithm.init_client(theta[0], here), {"w": theta}, here)
    trained = {**client, "w": client["w"] + 0.5 * (theta[1] - theta[2])}
    after, upload = algorithm.end(trained, {"w": theta}, here)
    assert torch.equal(upload["w"], trained["w"])
    before, now = layer_weights(client["hyper"]), layer_weights(after["hyper"])
    assert bool((now[:, 1] > before[:, 1]).all())
    assert bool((now[:, 2] < before[:, 2]).all())


def test_the_hypernetwork_learns_whose_models_help() -> None:
    """Two clients of one kind and one of another: after training the pair mixes itself more than at the start."""
    fed = federation(sizes=(30, 30, 30))
    # The third client's labels are turned round: its model is of no use to the others.
    other = fed.clients[2]
    turned = dataclasses.replace(other, train=dataclasses.replace(other.train, y=1 - other.train.y))
    fed = dataclasses.replace(fed, clients=(*fed.clients[:2], turned))

    def weight_of_the_other(hn_lr: float) -> float:
        found = engine.run(
            fed, algorithm="pfedla", model=models.logistic(), settings=[{"lr": 0.1, "hn_lr": hn_lr}], seeds=[1],
            budget=Budget(rounds=15, local_steps=5, batch_size=8, optimizer="sgd"), path="stack",
        )  # fmt: skip
        shares = []
        for client in (0, 1):
            personal = found.personal(0, client, "latest")[1]
            theta = found.server(0)[1]["w"]
            # The weights of the mixture, found again from what it is a mixture of.
            alpha = torch.linalg.lstsq(theta.T.double(), personal["w"].double()[:, None]).solution[:, 0]
            torch.testing.assert_close(alpha.sum().item(), 1.0, rtol=0, atol=1e-3)
            shares.append(alpha[2].item())
        return max(shares)

    assert weight_of_the_other(5.0) < 0.1 < weight_of_the_other(0.0)
