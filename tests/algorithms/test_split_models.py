"""Methods that federate a part of the model: FedRep, FedBABU, LG-FedAvg, FedBN, LocalAdaptation's tuning."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.algorithms.fedbabu import FedBABU
from bench.models.functional import Model
from bench.train import engine
from bench.types import Budget
from tests.algorithms.test_limits import BUDGET, SGD, assert_same, line, two_clients
from tests.reference import models
from tests.train.toy import federation, sites

INITIAL = models.mlp().state_dict()


def run(name: str, budget: Budget = BUDGET, **options: Any) -> engine.TrainedRuns:
    return engine.run(
        federation(), algorithm=name, algorithm_options=options, model=models.mlp(), settings=[{"lr": 0.02}],
        seeds=[2], budget=budget, path="stack",
    )  # fmt: skip


def weights(found: engine.TrainedRuns) -> list[dict[str, Tensor]]:
    """Every client's personal weights by name after the last round."""
    split = []
    for client in range(3):
        rounds, personal = found.personal(0, client, "latest")
        split.append(rounds.run_batch.models[client].split(personal["w"]))
    return split


def agree(found: engine.TrainedRuns, part: str) -> list[bool]:
    """For every weight of the part, whether all clients have the same."""
    one, *others = weights(found)
    return [all(torch.equal(one[name], other[name]) for other in others) for name in one if name.startswith(part)]


def untouched(found: engine.TrainedRuns, part: str) -> list[bool]:
    """For every weight of the part and every client, whether it is the initial one, but for a mean's rounding."""
    return [torch.allclose(own[name], INITIAL[name]) for own in weights(found) for name in own if name.startswith(part)]


@pytest.mark.parametrize(
    ("name", "base_agrees"), [("fedrep", True), ("fedbabu", True), ("fedper", True), ("lg_fedavg", False)]
)
def test_the_federated_part_is_common(name: str, base_agrees: bool) -> None:
    found = run(name, **({"epochs": 0} if name == "fedbabu" else {}))
    assert agree(found, "base.") == [base_agrees] * 2
    head_agrees = not base_agrees or name == "fedbabu"  # nobody has trained FedBABU's
    assert agree(found, "head.") == [head_agrees] * 2


def test_what_travels() -> None:
    one_round = dataclasses.replace(SGD, rounds=1, local_steps=1)
    base, head = 13 * 5 + 5, 5 + 1
    for name, floats in {"fedrep": base, "fedbabu": base, "lg_fedavg": head, "fedbn": base + head}.items():
        assert run(name, one_round).outcomes[0].communication == {"up": floats, "down": floats}


# FedRep --------------------------------------------------------------------------------------------------------


def test_fedrep_by_hand() -> None:
    # The logit is h b x from h = 1, b = 1. Two steps at 0.5, the first of the head.
    # A (x = 1, y = 1):  h_A = 1 - 0.5 (s(1) - 1);   then b_A = 1 - 0.5 h_A (s(h_A) - 1).
    # B (x = 2, y = 0):  h_B = 1 - 0.5 2 s(2);       then b_B = 1 - 0.5 2 h_B s(2 h_B).
    def s(logit: float) -> float:
        return 1 / (1 + math.exp(-logit))

    h_a, h_b = 1 - 0.5 * (s(1) - 1), 1 - s(2)
    b_a, b_b = 1 - 0.5 * h_a * (s(h_a) - 1), 1 - h_b * s(2 * h_b)
    found = engine.run(
        two_clients(), algorithm="fedrep", algorithm_options={"head_epochs": 1},
        model=models.BaseHead(line(1), line(1)),
        settings=[{"lr": 0.5}], seeds=[0], path="stack",
        budget=Budget(rounds=1, local_steps=2, batch_size="full", optimizer="sgd", validation=0.0),
    )  # fmt: skip
    for client, h in enumerate((h_a, h_b)):
        base, head = found.personal(0, client, "latest")[1]["w"].tolist()
        assert head == pytest.approx(h, abs=1e-6)
        assert base == pytest.approx((b_a + 3 * b_b) / 4, abs=1e-6)


def test_fedrep_without_steps_of_the_head_is_fedbabu_before_tuning() -> None:
    none, babu = run("fedrep", SGD, head_epochs=0), run("fedbabu", SGD, epochs=0)
    assert_same(none.outcomes[0], babu.outcomes[0])
    assert all(untouched(none, "head."))


def test_fedrep_without_steps_of_the_base_trains_heads_alone() -> None:
    found = run("fedrep", base_epochs=0)
    assert all(untouched(found, "base."))
    assert not any(untouched(found, "head."))


@pytest.mark.parametrize(
    ("steps", "of_the_head"), [(1, 0), (2, 1), (11, 10), (22, 20), (12, 10)]
)  # rounded in the base's favour: with a single step the head waits
def test_fedrep_divides_the_steps(steps: int, of_the_head: int) -> None:
    # The head is where as many steps of its own would have taken it on the same first mini-batches.
    def head_bias(steps: int, **options: Any) -> float:
        found = run("fedrep", dataclasses.replace(SGD, rounds=1, local_steps=steps), **options)
        return weights(found)[0]["head.0.bias"].item()

    heads_alone = head_bias(of_the_head, base_epochs=0) if of_the_head else INITIAL["head.0.bias"].item()
    assert head_bias(steps) == pytest.approx(heads_alone, abs=1e-7)


# FedBABU and LocalAdaptation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rest"), [("fedbabu", "fedbabu"), ("local_adaptation", "fedavg")])
def test_only_the_last_round_is_tuned(name: str, rest: str) -> None:
    tuned, plain = run(name, epochs=2), run(rest, **({"epochs": 0} if rest == "fedbabu" else {}))
    assert tuned.outcomes[0].validation[:-1] == plain.outcomes[0].validation[:-1]
    assert tuned.outcomes[0].validation[-1] != plain.outcomes[0].validation[-1]
    assert torch.equal(tuned.server(0)[1]["w"], plain.server(0)[1]["w"])


def test_local_adaptation_without_epochs_is_fedavg() -> None:
    assert_same(run("local_adaptation", epochs=0).outcomes[0], run("fedavg").outcomes[0])


def test_local_adaptation_is_fedavg_ft_of_the_last_round() -> None:
    assert_same(run("local_adaptation").outcomes[0], run("fedavg_ft", every_round=False).outcomes[0])


def test_fedbabu_tunes_all_or_the_head() -> None:
    assert agree(run("fedbabu"), "") == [False] * 4
    head_only = run("fedbabu", head_only=True)
    assert agree(head_only, "base.") == [True] * 2
    assert agree(head_only, "head.") == [False] * 2


def test_fedbabu_moves_running_statistics_with_the_head() -> None:
    reference = importlib.import_module("tests.reference.fedbabu")
    fed, model = federation(sizes=(25, 15, 10)), models.mlp(batch_norm=True)
    budget = Budget(rounds=2, local_epochs=1, batch_size=5, optimizer="sgd")
    setting = reference.SETTINGS[0]
    found = engine.run(
        fed, algorithm="fedbabu", algorithm_options={"head_only": True}, model=model, settings=[setting], seeds=[4],
        budget=budget,
    )  # fmt: skip
    expected = reference.run(
        sites(fed, budget, 4, reference.TUNING), model, rounds=2, optimizer="sgd", hyper=setting,
        loss=functional.binary_cross_entropy, head_only=True,
    )  # fmt: skip
    assert agree(found, "base.1.") == [True, True, False, False]  # scale and shift stay, statistics do not
    for own, state in zip(weights(found), expected.personal[-1], strict=True):
        torch.testing.assert_close(own, state, rtol=1e-5, atol=1e-5)


def test_fedbabu_bases_of_a_number_of_layers() -> None:
    assert_same(run("fedbabu", layers=1).outcomes[0], run("fedbabu").outcomes[0])
    model = Model(models.deep())
    shared = [name for name in model.names if FedBABU(layers=1).shared(name, model)]
    assert shared == ["base.0.weight", "base.0.bias"]  # the second hidden layer then belongs to the head


# FedBN ---------------------------------------------------------------------------------------------------------


def test_fedbn_without_batch_norm_is_fedavg() -> None:
    assert_same(run("fedbn").outcomes[0], run("fedavg").outcomes[0])


def test_batch_norm_is_known_by_its_kind() -> None:
    model = Model(models.mlp(batch_norm=True))
    found = {name for name in model.names if model.in_batch_norm(name)}
    assert found == {f"base.1.{part}" for part in ("weight", "bias", "running_mean", "running_var")}
    alone = Model(nn.BatchNorm1d(2))
    assert all(alone.in_batch_norm(name) for name in alone.names)


@pytest.mark.parametrize(
    "name",
    ["fedbn", "fedbabu", "lg_fedavg", "ditto", "local_adaptation", "fedyogi", "fedamp", "heurfedamp", "fedrep",
     "per_fedavg", "fedlama", "pfedla"],
)  # fmt: skip
def test_batch_norm_equals_the_reference_loop(name: str) -> None:
    reference = importlib.import_module(f"tests.reference.{name}")
    fed = federation(sizes=(25, 15, 10), test=7)  # no batch of one sample: batch-norm cannot normalise it
    budget = Budget(rounds=3, local_epochs=1, batch_size=5, optimizer="sgd")
    model, setting = models.mlp(batch_norm=True), reference.SETTINGS[0]
    found = engine.run(
        fed, algorithm=name, algorithm_options=getattr(reference, "OPTIONS", None), model=model, settings=[setting],
        seeds=[4], budget=budget,
    )  # fmt: skip
    expected = reference.run(
        sites(fed, budget, 4, getattr(reference, "TUNING", 0)), model, rounds=3, optimizer="sgd", hyper=setting,
        loss=functional.binary_cross_entropy,
    )  # fmt: skip
    [outcome] = found.outcomes
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(torch.tensor(outcome.validation), torch.tensor(expected.validation), **close)
    for own, state in zip(weights(found), expected.personal[-1], strict=True):
        torch.testing.assert_close(own, state, **close)
    if name == "fedbn":
        assert agree(found, "base.1.") == [False] * 4
        assert agree(found, "base.0.") == agree(found, "head.") == [True] * 2
        d = Model(model).size
        assert outcome.communication == {"up": d - 20, "down": d - 20}
