"""Global Layers: worked by hand, its limits, and federations whose clients differ in features and classes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from bench.models import global_layers
from bench.train import engine
from bench.types import Budget, Client, Federation, SpecError, Split
from tests.algorithms.test_limits import W_A, W_B, assert_same, line, two_clients
from tests.reference import models
from tests.train.toy import federation

BUDGET = Budget(rounds=3, local_epochs=1, batches=2, optimizer="adamw")
EVERYTHING = ("base", "head")


def train(name: str, fed: Federation, layers: tuple[str, ...] = EVERYTHING, **setting: float) -> Any:
    options = {"layers": layers} if name == "global_layers" else {}
    [outcome] = engine.train(
        fed, algorithm=name, algorithm_options=options, model="mlp", settings=[{"lr": 0.02} | setting], seeds=[2],
        budget=BUDGET, path="stack",
    )  # fmt: skip
    return outcome


def unlike(task: str, *clients: tuple[int, int, int]) -> Federation:
    """Clients of (samples, features, classes)."""
    generator = torch.Generator().manual_seed(1)

    def split(n: int, features: int, classes: int) -> Split:
        y = torch.arange(n) % classes
        x = torch.randn(n, features, generator=generator) + y[:, None]
        return Split(x, y[:, None].float() if task == "binary" else y)

    made = tuple(
        Client(f"site {c}", split(n, features, k), split(8, features, k), classes=None if task == "binary" else k)
        for c, (n, features, k) in enumerate(clients)
    )
    return Federation("unlike", made, task, classes=max(k for *_, k in clients))


@pytest.fixture(autouse=True)
def one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """One transformer block instead of six: nothing here depends on how many there are."""
    monkeypatch.setattr(global_layers, "BLOCKS", 1)


DISJOINT = unlike("binary", (18, 13, 2), (27, 9, 2), (18, 12, 2))


def run(name: str, fed: Federation, rounds: int, budget: Budget = BUDGET) -> engine.TrainedRuns:
    return engine.run(
        fed, algorithm=name, model="gl_transformer", model_options={"d_global": 1}, settings=[{"lr": 1e-3}],
        seeds=[4], budget=dataclasses.replace(budget, rounds=rounds),
    )  # fmt: skip


def shared(found: engine.TrainedRuns, client: int) -> dict[str, torch.Tensor]:
    rounds, personal = found.personal(0, client, "latest")
    weights = rounds.run_batch.models[client].split(personal["w"])
    return {name: part for name, part in weights.items() if name.startswith(("layer2.", "layer3.", "layer4."))}


def test_worked_by_hand() -> None:
    # One sample against three, and yet equal weights: omega = (0.25 - 0.5) / 2 = -0.125; half way there at rate 0.5.
    # Round 2, whole way (rate 1): A: sigmoid(-0.125) - 1 = -0.531209, 0.140605.  B: 2 sigmoid(-0.25) = 0.875647,
    # -0.562823.  Mean -0.211109.
    def by_hand(rate: float, rounds: int) -> list[float]:
        found = engine.run(
            two_clients(), algorithm="global_layers", algorithm_options={"layers": ["0"]},
            model=nn.Sequential(line(0.0)), settings=[{"lr": 0.5, "rate": rate}], seeds=[0], path="stack",
            budget=Budget(rounds=rounds, local_steps=1, batch_size="full", optimizer="sgd", validation=0.0),
        )  # fmt: skip
        return [found.personal(0, client, "latest")[1]["w"].item() for client in (0, 1)]

    assert by_hand(1.0, 1) == pytest.approx([-0.125, -0.125])
    assert by_hand(0.5, 1) == pytest.approx([(W_A - 0.125) / 2, (W_B - 0.125) / 2])
    assert by_hand(1.0, 2) == pytest.approx([-0.211109, -0.211109], abs=1e-6)


def test_all_layers_of_equal_clients_are_fedavg() -> None:
    equal = federation(sizes=(12, 12, 12))
    assert_same(train("global_layers", equal), train("fedavg", equal))


def test_rate_0_is_local_training() -> None:
    local = train("local", federation())
    own = tuple(score for score in local.scores if score[1] == score[2])
    assert_same(train("global_layers", federation(), rate=0.0), dataclasses.replace(local, scores=own))


def test_the_head_alone_is_lg_fedavg_of_equal_clients() -> None:
    equal = federation(sizes=(12, 12, 12))
    assert_same(train("global_layers", equal, ("head",)), train("lg_fedavg", equal))


def test_only_the_shared_layers_travel() -> None:
    assert train("global_layers", federation(), ("head",)).communication == {"up": 11, "down": 11}


@pytest.mark.parametrize(
    ("layers", "message"),
    [(("haed",), "layers: the model has no layer 'haed': did you mean 'head'"), ((), "shares no weight")],
)
def test_layers_the_model_has_not(layers: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        train("global_layers", federation(), layers)


def test_disjoint_features_begin_apart_and_meet_in_the_plain_mean() -> None:
    # Until they meet, clients train alone, each from its own initial global layers.
    met, alone = run("global_layers", DISJOINT, rounds=1), run("local", DISJOINT, rounds=1)
    before = [shared(alone, client) for client in range(3)]
    name = "layer3.1.weight"
    assert not torch.allclose(before[0][name], before[1][name], atol=0.05)
    for client in range(3):
        after = shared(met, client)
        assert after.keys() == before[0].keys()
        for name, part in after.items():
            torch.testing.assert_close(part, sum(each[name] for each in before) / 3, rtol=1e-5, atol=1e-6)


def test_disjoint_features_end_to_end() -> None:
    found = run("global_layers", DISJOINT, rounds=2)
    [outcome] = found.outcomes
    assert (outcome.status, outcome.path) == ("finished", "loop")
    assert sorted({score[1:3] for score in outcome.scores}) == [(0, 0), (1, 1), (2, 2)]
    omega = sum(part.numel() for part in shared(found, 0).values())
    assert outcome.communication == {"up": omega, "down": omega}
    assert all(torch.equal(part, shared(found, 2)[name]) for name, part in shared(found, 0).items())
    assert outcome.validation != run("local", DISJOINT, rounds=2).outcomes[0].validation


def test_after_every_batch() -> None:
    # Each client has batches of floor(n / 2) samples, and takes one step of one of them between aggregations.
    every = dataclasses.replace(BUDGET, local_epochs=None, local_steps=1)
    outcome = run("global_layers", DISJOINT, rounds=2, budget=every).outcomes[0]
    assert outcome.status == "finished"
    assert outcome.validation != run("global_layers", DISJOINT, rounds=1).outcomes[0].validation


def test_different_classes_end_to_end() -> None:
    found = run("global_layers", unlike("multiclass", (18, 5, 3), (20, 5, 2), (16, 4, 4)), rounds=2)
    assert found.outcomes[0].status == "finished"
    rounds, _ = found.personal(0, 0, "latest")
    assert [model.shapes["head.weight"] for model in rounds.run_batch.models] == [(3, 16), (2, 16), (4, 16)]


def test_the_reference_model_has_the_layers_of_these_tests() -> None:
    assert [name for name, _ in models.mlp().named_children()] == list(EVERYTHING)


def test_the_transformer_can_be_stacked() -> None:
    def losses(path: str) -> torch.Tensor:
        [outcome] = engine.train(
            federation(features=4), algorithm="global_layers", model="gl_transformer",
            model_options={"d_global": 1, "gate": True, "input_norm": True}, settings=[{}], seeds=[0], budget=BUDGET,
            path=path,
        )  # fmt: skip
        return torch.tensor(outcome.validation)

    torch.testing.assert_close(losses("stack"), losses("loop"), rtol=1e-4, atol=1e-5)
