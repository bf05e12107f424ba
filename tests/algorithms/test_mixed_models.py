"""APPLE, APFL in weights, FedFomo, FedAMP and FedAvg's variants: options against loops, hand-worked cases, limits."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench.algorithms.apple import Apple
from bench.algorithms.fedamp import FedAMP
from bench.algorithms.fedfomo import FedFomo
from bench.algorithms.heurfedamp import HeurFedAMP
from bench.models.functional import Model
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget, Client, Federation, SpecError, Split
from tests.algorithms.test_limits import BUDGET, SGD, W_A, W_B, assert_same, line, train, two_clients
from tests.reference import models
from tests.train.toy import federation, sites

EQUAL = (12, 12, 12)
FULL = Budget(rounds=3, local_epochs=1, batch_size="full", optimizer="sgd")


def run(name: str, budget: Budget = SGD, sizes: tuple[int, ...] = (23, 11, 6), **given: Any) -> engine.TrainedRuns:
    """A small network at unequal clients; ``given`` are hyper-parameters (numbers) and ``options``."""
    options = given.pop("options", None)
    return engine.run(
        federation(sizes=sizes), algorithm=name, algorithm_options=options, model=models.mlp(),
        settings=[{"lr": 0.02} | given], seeds=[2], budget=budget, path="stack",
    )  # fmt: skip


def by_hand(name: str, rounds: int, fed: Federation | None = None, w: float = 0.0, **given: Any) -> engine.TrainedRuns:
    """Client A (x = 1, class 1) and B (three times x = 2, class 0); the logit is w x, one local step a round."""
    options = given.pop("options", None)
    budget = Budget(rounds=rounds, local_steps=1, batch_size="full", optimizer="sgd", validation=0.0)
    return engine.run(
        fed or two_clients(), algorithm=name, algorithm_options=options, model=line(w), settings=[{"lr": 0.5} | given],
        seeds=[0], budget=budget, path="stack",
    )  # fmt: skip


def weights(found: engine.TrainedRuns) -> list[float]:
    return [found.personal(0, client, "latest")[1]["w"].item() for client in (0, 1)]


def s(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


# The gradients at w of A and of B.
def g_a(w: float) -> float:
    return s(w) - 1


def g_b(w: float) -> float:
    return 2 * s(2 * w)


def near(expected: list[float]) -> object:
    return pytest.approx(expected, abs=1e-6)


# Options against the reference loops ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("apple", {"scheduler": "exponential"}),
        ("apple", {"budget": 1}),
        ("apple", {"budget": 1, "selection": "uniform"}),
        ("apfl", {"mixes": "weights"}),
        ("fedfomo", {"budget": 1}),
        ("fedavg_ft", {"every_round": False}),
    ],
)
def test_options_equal_their_reference_loops(name: str, options: dict[str, Any], path: ExecutionPath) -> None:
    mixes = name == "apfl"
    reference = importlib.import_module(f"tests.reference.{'apfl_weights' if mixes else name}")
    budget, fed = Budget(rounds=6, local_epochs=1, batch_size=8, optimizer="sgd"), federation()
    found = engine.run(
        fed, algorithm=name, algorithm_options=options, model=models.mlp(), settings=reference.SETTINGS, seeds=[5],
        budget=budget, path=path,
    )  # fmt: skip
    for outcome in found.outcomes:
        expected = reference.run(
            sites(fed, budget, 5, getattr(reference, "TUNING", 0)), models.mlp(), rounds=6, optimizer="sgd",
            hyper=dict(outcome.hyperparameters), loss=functional.binary_cross_entropy, **({} if mixes else options),
        )  # fmt: skip
        ours, theirs = torch.tensor(outcome.validation), torch.tensor(expected.validation)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("apple", {"scheduler": "cosin"}, "scheduler = 'cosin': did you mean 'cosine'"),
        ("apple", {"selection": "best"}, "selection = 'best': expected one of paper, uniform"),
        ("apfl", {"mixes": "logits"}, "mixes = 'logits'"),
        ("fedfomo", {"budget": 0}, "budget = 0: expected a whole number of at least 1, or none"),
        ("apple", {"budget": 1.5}, "budget = 1.5"),
    ],
)
def test_impossible_options_are_refused(name: str, option: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(name, options=option)


# FedAvg's variants ---------------------------------------------------------------------------------------------------


def test_fedavg_local_by_hand() -> None:
    assert weights(by_hand("fedavg_local", 1)) == near([W_A, W_B])
    # The second round begins at the mean (0.25 + 3 * -0.5) / 4 = -0.3125.
    assert weights(by_hand("fedavg_local", 2)) == near([-0.3125 - 0.5 * g_a(-0.3125), -0.3125 - 0.5 * g_b(-0.3125)])
    assert by_hand("fedavg_local", 2).server(0)[1]["w"].item() == by_hand("fedavg", 2).server(0)[1]["w"].item()


def test_fedavg_ft_by_hand() -> None:
    once = [-0.3125 - 0.5 * g_a(-0.3125), -0.3125 - 0.5 * g_b(-0.3125)]
    twice = [once[0] - 0.5 * g_a(once[0]), once[1] - 0.5 * g_b(once[1])]
    assert weights(by_hand("fedavg_ft", 1)) == near(once)
    assert weights(by_hand("fedavg_ft", 1, options={"epochs": 2})) == near(twice)
    # One local step begins where FedProx's pull is 0, and tuning has no pull: as if mu were 0.
    assert weights(by_hand("fedprox_ft", 1, mu=2.0, options={"epochs": 2})) == near(twice)
    assert by_hand("fedavg_ft", 1).server(0)[1]["w"].item() == pytest.approx(-0.3125)


def test_tuning_is_forgotten_and_is_the_next_rounds_local_work() -> None:
    # With full batches nothing is shuffled: a client that tunes the mean does what it will do in the next round.
    tuned, local = run("fedavg_ft", FULL).outcomes[0], run("fedavg_local", FULL).outcomes[0]
    torch.testing.assert_close(torch.tensor(tuned.validation[:-1]), torch.tensor(local.validation[1:]))


@pytest.mark.parametrize(("name", "base"), [("fedavg_ft", "fedavg"), ("fedprox_ft", "fedprox")])
def test_no_tuning_epochs_or_tuning_after_the_last_round_only(name: str, base: str) -> None:
    untuned = run(base).outcomes[0]
    assert_same(run(name, options={"epochs": 0}).outcomes[0], untuned)
    [last] = run(name, options={"every_round": False}).outcomes
    assert last.validation[:-1] == untuned.validation[:-1]
    assert last.validation[-1] == run(name).outcomes[0].validation[-1] != untuned.validation[-1]


def test_fedprox_ft_without_a_pull_is_fedavg_ft() -> None:
    assert_same(run("fedprox_ft", mu=0.0).outcomes[0], run("fedavg_ft").outcomes[0])


# APFL in weights -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "limit"), [(0.0, "fedavg"), (1.0, "local")])
def test_apfl_in_weights_has_fedavg_and_local_as_limits(alpha: float, limit: str) -> None:
    mixed = run("apfl", BUDGET, alpha=alpha, alpha_lr=0.0, options={"mixes": "weights"}).outcomes[0]
    torch.testing.assert_close(torch.tensor(mixed.validation), torch.tensor(train(limit).validation))


def test_apfl_in_weights_by_hand() -> None:
    # Round 1, everything from 0 with alpha 0.5: w = W_A, v = half the step, alpha stays, as v = w.
    # Round 2 of A: w is the mean -0.3125, v = 0.125, m = -0.09375.
    options = {"mixes": "weights"}
    tree = by_hand("apfl", 1, alpha_lr=0.3, options=options).personal(0, 0, "latest")[1]
    assert [tree[part].item() for part in ("w", "v", "alpha")] == near([-0.3125, W_A / 2, 0.5])
    tree = by_hand("apfl", 2, alpha_lr=0.3, options=options).personal(0, 0, "latest")[1]
    g = g_a(-0.09375)
    assert [tree[part].item() for part in ("v", "alpha")] == near([0.125 - 0.25 * g, 0.5 - 0.3 * (0.125 + 0.3125) * g])


# APPLE ---------------------------------------------------------------------------------------------------------------


def test_apple_by_hand() -> None:
    # All cores begin at 1 and p at p0 = (1/4, 3/4), so that w = 1 for both.
    a, b, lr, p_lr = g_a(1.0), g_b(1.0), 0.5, 0.1
    core_a, core_b = 1 - lr * 0.25 * a, 1 - lr * 0.75 * b
    p_a, p_b = [0.25 - p_lr * a, 0.75 - p_lr * a], [0.25 - p_lr * b, 0.75 - p_lr * b]
    # Evaluation knows the own new core, and of the other what was downloaded before: 1.
    first = by_hand("apple", 1, w=1.0, p_lr=p_lr, mu=2.0, fade=2.0)
    assert weights(first) == near([p_a[0] * core_a + p_a[1], p_b[0] + p_b[1] * core_b])
    assert first.personal(0, 0, "latest")[1]["p"].tolist() == near(p_a)
    assert first.server(0)[1]["models"].flatten().tolist() == near([core_a, core_b])
    # Round 2 of A: the old core and p decide both steps; lambda = (1 + cos(pi / 2)) / 2 = 1/2, and mu = 2.
    w = p_a[0] * core_a + p_a[1] * core_b
    slope = [g_a(w) * core_a + (p_a[0] - 0.25), g_a(w) * core_b + (p_a[1] - 0.75)]
    p_a, core_a = [p - p_lr * d for p, d in zip(p_a, slope, strict=True)], core_a - lr * p_a[0] * g_a(w)
    second = by_hand("apple", 2, w=1.0, p_lr=p_lr, mu=2.0, fade=2.0)
    assert second.personal(0, 0, "latest")[1]["p"].tolist() == near(p_a)
    assert weights(second)[0] == pytest.approx(p_a[0] * core_a + p_a[1] * core_b, abs=1e-6)


def test_apple_with_fixed_p_and_equal_cores_is_fedsgd_with_squared_weights() -> None:
    # From equal cores with p = p0 a local step moves core j by -lr p_j g_j, so the mixture by -lr sum_j p_j^2 g_j.
    w, lr = 0.4, 0.5
    cores = [w - lr * 0.25 * g_a(w), w - lr * 0.75 * g_b(w)]
    mixture = w - lr * (0.25**2 * g_a(w) + 0.75**2 * g_b(w))
    assert 0.25 * cores[0] + 0.75 * cores[1] == pytest.approx(mixture)
    found = by_hand("apple", 2, w=w, p_lr=0.0)
    # In round 2 both begin at the mixture; evaluated is what the own step makes of it.
    steps = [mixture - lr * 0.25**2 * g_a(mixture), mixture - lr * 0.75**2 * g_b(mixture)]
    assert weights(found) == near(steps)


def test_apple_with_fixed_p_and_equal_clients_is_fedavg_at_lr_over_c() -> None:
    # With p_j = 1 / C and one local step a round, mixtures of lr C are FedAvg's global models of lr.
    budget = dataclasses.replace(FULL, rounds=5)
    apple, fedavg = run("apple", budget, EQUAL, lr=0.06, p_lr=0.0), run("fedavg", budget, EQUAL, lr=0.02)
    torch.testing.assert_close(apple.server(0)[1]["models"].mean(0), fedavg.server(0)[1]["w"])


def test_apples_cores_begin_apart_and_its_mixtures_together() -> None:
    budget = dataclasses.replace(FULL, rounds=1)
    found = engine.run(
        federation(), algorithm="apple", model="logistic", settings=[{"lr": 1e-30, "p_lr": 0.0}], seeds=[2],
        budget=budget,
    )  # fmt: skip
    cores = found.server(0)[1]["models"]
    assert len({core.sum().item() for core in cores}) == 3
    # 23, 11 and 6 samples without a fifth for validation, rounded down.
    expected = torch.tensor([19.0, 9.0, 5.0]) / 33 @ cores
    for client in range(3):
        torch.testing.assert_close(found.personal(0, client, "latest")[1]["w"], expected)


@pytest.mark.parametrize(("scheduler", "half"), [("cosine", 0.5), ("exponential", 0.001**0.5)])
def test_apples_pull_fades(scheduler: str, half: float) -> None:
    apple = Apple(mu=0.2, fade=10.0, scheduler=scheduler)
    pulls = [apple._pull(SimpleNamespace(round=torch.tensor(r))).item() for r in (0, 5, 10, 11)]
    assert pulls == pytest.approx([0.2, 0.2 * half, 0.0, 0.0])


def context(round_: int, key: int, clients: int = 4, index: int = 1) -> Any:
    return SimpleNamespace(
        clients=clients, index=torch.tensor(index), round=torch.tensor(round_), key=torch.tensor(key)
    )


def test_apple_downloads_cores_it_never_had_first() -> None:
    apple, received = Apple(budget=2), {"models": torch.zeros(6, 1)}
    client = {"p": torch.rand(6), "cores": torch.ones(6, 1), "visited": torch.zeros(6, dtype=torch.bool)}
    seen = []
    for round_ in range(4):
        client = apple.start(client, received, context(round_, round_, clients=6))
        seen.append(int(client["visited"].sum()))
        client = {**client, "cores": torch.ones(6, 1)}
    # The initial cores come to everybody and do not count; then 2, 2 and 1 of five others are new.
    assert seen == [0, 2, 4, 5]
    assert client["visited"].tolist() == [True, False, True, True, True, True]


def test_a_core_not_downloaded_stays_as_it_was() -> None:
    apple, received = Apple(budget=1), {"models": torch.zeros(4, 1)}
    client = {"p": torch.rand(4), "cores": torch.ones(4, 1), "visited": torch.ones(4, dtype=torch.bool)}
    assert apple.start(client, received, context(0, 0))["cores"].sum() == 0
    assert apple.start(client, received, context(1, 0))["cores"].sum() == 3


def test_apple_draws_known_cores_by_the_papers_probabilities() -> None:
    # b = max(1.5, 6 * 2 / 4) = 3: the rates 3^|p| of clients 0, 2 and 3 are 3, 1 and 9.
    apple, n = Apple(budget=2), 3000
    client = {"p": torch.tensor([-1.0, 7.0, 0.0, 2.0]), "visited": torch.ones(4, dtype=torch.bool)}
    drawn = Counter(tuple(apple._chosen(client, context(6, key)).tolist()) for key in range(n))
    rate = {0: 3 / 13, 2: 1 / 13, 3: 9 / 13}
    for left_out in rate:
        i, j = (k for k in rate if k != left_out)
        chance = rate[i] * rate[j] / (1 - rate[i]) + rate[j] * rate[i] / (1 - rate[j])
        pair = tuple(k in (i, j) for k in range(4))
        assert abs(drawn[pair] / n - chance) < 4 * (chance * (1 - chance) / n) ** 0.5


@pytest.mark.parametrize("name", ["apple", "fedfomo"])
def test_a_budget_of_all_others_is_no_limit(name: str) -> None:
    unlimited = run(name).outcomes[0]
    assert_same(run(name, options={"budget": 2}).outcomes[0], unlimited)
    assert run(name, options={"budget": 1}).outcomes[0].validation != unlimited.validation


def test_apple_leaves_running_statistics_with_their_client() -> None:
    one = Budget(rounds=2, local_steps=1, batch_size="full", optimizer="sgd")
    found = {
        name: engine.run(
            federation(), algorithm=name, model=models.mlp(batch_norm=True), settings=[{"lr": 1e-30} | extra],
            seeds=[2], budget=one,
        )
        for name, extra in (("apple", {"p_lr": 0.0}), ("local", {}))
    }  # fmt: skip
    # Equal cores, and p that sums to 1: the same model as in local training, and the same statistics.
    for client in range(3):
        ours, theirs = (found[name].personal(0, client, "latest")[1]["w"] for name in ("apple", "local"))
        torch.testing.assert_close(ours, theirs)


# FedFomo -------------------------------------------------------------------------------------------------------------


def validated(x_a: float, y_b: float) -> Federation:
    """The two clients with a validation sample each: A's is (x_a, 1), B's (1, y_b)."""
    fed = two_clients()
    samples = (Split(torch.full((1, 1), x_a), torch.ones(1, 1)), Split(torch.ones(1, 1), torch.full((1, 1), y_b)))
    clients = tuple(
        Client(each.name, each.train, each.test, validation=own) for each, own in zip(fed.clients, samples, strict=True)
    )
    return dataclasses.replace(fed, clients=clients)


def test_fedfomo_by_hand() -> None:
    # Round 1 from equal weights gives W_A = 0.25 and W_B = -0.5. Both validate on (1, 1): only 0.25 helps, so both
    # begin round 2 there, B with A's model.
    assert weights(by_hand("fedfomo", 1, validated(1.0, 1.0))) == near([W_A, W_B])
    found = weights(by_hand("fedfomo", 2, validated(1.0, 1.0)))
    assert found == near([W_A - 0.5 * g_a(W_A), W_A - 0.5 * g_b(W_A)])
    # A's validation sample says nothing (x = 0): its round 2 begins where round 1 did. B's says class 0: its own helps.
    found = weights(by_hand("fedfomo", 2, validated(0.0, 0.0)))
    assert found == near([W_A, W_B - 0.5 * g_b(W_B)])


def test_fedfomo_weighs_models_by_their_gain_over_distance() -> None:
    # The loss is |w - 1|. From v = 0 the models 1/2 and 3/2 gain 1/2 each, over distances 1/2 and 3/2: shares 3 : 1.
    class Exact(FedFomo):
        @staticmethod
        def _loss(w: torch.Tensor, site: Any) -> torch.Tensor:
            return (w - 1).abs().sum()

    client = {"w": torch.ones(1), "began": torch.zeros(1), "affinity": torch.tensor([0.0, 5.0, 0.0])}
    received = {"models": torch.tensor([[0.5], [1.5], [-1.0]])}
    validation = SimpleNamespace(weight=torch.ones(1))
    site = SimpleNamespace(clients=3, index=torch.tensor(0), trained=lambda vector: vector, validation=validation)
    started = Exact().start(client, received, site)
    assert started["w"].item() == pytest.approx(0.75 * 0.5 + 0.25 * 1.5)
    assert started["affinity"].tolist() == pytest.approx([1.0, 5 + 1 / 3, -1.0])


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_a_client_of_fedfomo_without_validation_samples_trains_alone(path: ExecutionPath) -> None:
    # A fifth of 4 samples, rounded down, leaves the last client none.
    fomo, local = (
        engine.run(
            federation(sizes=(23, 11, 4)), algorithm=name, model=models.mlp(), settings=[{"lr": 0.02}], seeds=[2],
            budget=SGD, path=path,
        )
        for name in ("fedfomo", "local")
    )  # fmt: skip
    own, alone = (found.personal(0, 2, "latest")[1]["w"] for found in (fomo, local))
    assert torch.equal(own, alone)


def test_fedfomo_downloads_by_affinity_or_explores() -> None:
    client = {"affinity": torch.tensor([1.0, 9.0, 5.0, 3.0])}
    greedy = FedFomo(budget=2, epsilon=0.4, epsilon_decay=0.1)
    assert all(greedy._chosen(client, context(4, key)).tolist() == [1, 2, 3] for key in range(30))
    n, curious = 2000, FedFomo(budget=1, epsilon=0.6, epsilon_decay=0.1)
    drawn = Counter(curious._chosen(client, context(3, key)).tolist()[1] for key in range(n))
    # 0.7 of the time the best, client 2; else each of the three others alike.
    for other, chance in {2: 0.8, 0: 0.1, 3: 0.1}.items():
        assert abs(drawn[other] / n - chance) < 4 * (chance * (1 - chance) / n) ** 0.5


# FedAMP --------------------------------------------------------------------------------------------------------------


def test_fedamp_by_hand() -> None:
    # After round 1 the squared distance is 0.75^2: xi = 0.5 exp(-0.5625 / 2) / 2 with alpha = 0.5 and sigma = 2.
    numbers = {"lam": 1.0, "alpha": 0.5, "alpha_decay": 1.0, "sigma": 2.0}
    xi = 0.25 * math.exp(-0.28125)
    first = by_hand("fedamp", 1, **numbers)
    u_a, u_b = W_A - 0.75 * xi, W_B + 0.75 * xi
    assert weights(first) == near([W_A, W_B])
    assert first.server(0)[1]["u"].flatten().tolist() == near([u_a, u_b])
    # Round 2 continues from the own weights, with a pull of lam / alpha = 2 times the distance.
    expected = [W_A - 0.5 * (g_a(W_A) + 2 * (W_A - u_a)), W_B - 0.5 * (g_b(W_B) + 2 * (W_B - u_b))]
    assert weights(by_hand("fedamp", 2, **numbers)) == near(expected)


def test_heurfedamp_weighs_by_angles() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 3.0], [2.0, 2.0]])
    xi = HeurFedAMP(sigma=2.0, self_weight=0.4).attention(vectors, torch.tensor(1.0))
    near_, far = math.exp(2 * 0.5**0.5), 1.0
    assert xi[0].tolist() == near([0.4, 0.6 * far / (near_ + far), 0.6 * near_ / (near_ + far)])
    assert xi.sum(1).tolist() == near([1.0, 1.0, 1.0])


def test_fedamps_alpha_falls_after_every_interval() -> None:
    fedamp = FedAMP(alpha=100.0, alpha_decay=0.1, interval=30)
    assert [fedamp._alpha(torch.tensor(k)).item() for k in (0, 29, 30, 60)] == pytest.approx([100, 100, 10, 1])


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("fedamp", {"lam": 0.0}),
        ("heurfedamp", {"lam": 0.0, "self_weight": 0.3}),
        ("heurfedamp", {"self_weight": 1.0, "lam": 1.0, "alpha": 1e9}),
    ],
)
def test_fedamp_without_a_pull_is_local(name: str, numbers: dict[str, float]) -> None:
    ours, local = run(name, BUDGET, **numbers).outcomes[0], train("local")
    torch.testing.assert_close(torch.tensor(ours.validation), torch.tensor(local.validation))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("fedamp", {"alpha": 1e-6, "lam": 1e-6, "sigma": 1.0, "alpha_decay": 1.0}),
        ("heurfedamp", {"alpha": 1.0, "lam": 1.0, "self_weight": 1.0, "alpha_decay": 1.0}),
    ],
)
def test_with_vanishing_messages_clients_do_not_depend_on_each_other(name: str, numbers: dict[str, float]) -> None:
    # A small alpha at the same lam / alpha, or a self weight of 1: u_i is w_i, whoever else takes part.
    alone = run(name, SGD, (23, 11), **numbers).outcomes[0]
    among = run(name, SGD, **numbers).outcomes[0]
    for ours, theirs in zip(alone.validation, among.validation, strict=True):
        assert ours == pytest.approx(theirs[:2], abs=1e-5)


# Communication cost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "down"),
    [
        ("apple", {}, 2), ("apple", {"budget": 1}, 1), ("fedfomo", {}, 2), ("fedfomo", {"budget": 1}, 1),
        ("fedamp", {}, 1), ("heurfedamp", {}, 1), ("fedavg_local", {}, 1), ("fedavg_ft", {}, 1),
        ("fedprox_ft", {}, 1), ("apfl", {"mixes": "weights"}, 1),
    ],
)  # fmt: skip
def test_communication_in_models(name: str, options: dict[str, Any], down: int) -> None:
    d = Model(models.mlp()).size
    [outcome] = run(name, dataclasses.replace(SGD, rounds=1, local_steps=1), options=options).outcomes
    assert outcome.communication == {"up": d, "down": down * d}
