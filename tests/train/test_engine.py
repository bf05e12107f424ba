"""Run batches: packing changes no number, checkpoint rules select the right rounds, diverged runs affect no others."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench import registry
from bench.native.kernel import Kernel
from bench.train import driver, engine
from bench.train.mapping.mapper import Mapper
from bench.train.path import ExecutionPath
from bench.train.trace.capture import Captured
from bench.types import Budget, Client, Federation, Outcome, Split
from tests.train.toy import federation

BUDGET = Budget(rounds=3, local_steps=3, batch_size=4)
ALGORITHMS = list(registry.catalogue("algorithms"))
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "binary with dropout": ("binary", "mlp", {"hidden": 4, "dropout": 0.3}),
    "multi-class": ("multiclass", "mlp", {"hidden": 3}),
    "logistic": ("binary", "logistic", {}),
}


def train(algorithm: str = "fedavg", fed: Federation | None = None, **changes: Any) -> list[Outcome]:
    asked = {"model": "mlp", "settings": [{"lr": 0.05}], "seeds": [2, 9], "budget": BUDGET, "path": "stack"} | changes
    return engine.train(fed or federation(), algorithm=algorithm, **asked)


def assert_close(one: list[Outcome], other: list[Outcome], tolerance: float = 1e-5) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.hyperparameters, a.seed, a.status) == (b.hyperparameters, b.seed, b.status)
        torch.testing.assert_close(
            torch.tensor(a.validation), torch.tensor(b.validation), rtol=tolerance, atol=tolerance
        )
        torch.testing.assert_close(
            torch.tensor(a.aggregated), torch.tensor(b.aggregated), rtol=tolerance, atol=tolerance
        )
        assert a.scores == b.scores
        assert a.curves == b.curves
        assert a.traces.keys() == b.traces.keys()
        for name, watched in a.traces.items():
            torch.testing.assert_close(
                torch.tensor(watched), torch.tensor(b.traces[name]), rtol=tolerance, atol=tolerance
            )


NEEDS_A_BASE = ("fedbabu", "fedper", "fedrep", "fenda", "perfcl")  # `logistic` has no layer before its head
OPTIONS = {"global_layers": {"layers": ("head",)}}  # the default names layers of the paper's model

# --- packing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "case"), [
    pytest.param(algorithm, case, marks=[] if case == "multi-class" else pytest.mark.slow)
    for algorithm in ALGORITHMS for case in TASKS
    if case != "logistic" or algorithm not in NEEDS_A_BASE
])  # fmt: skip
def test_stacked_and_looped_runs_agree(algorithm: str, case: str) -> None:
    task, model, options = TASKS[case]
    # Epochs over 23, 11 and 6 samples: clients take different numbers of steps, and end on short batches.
    budget = Budget(rounds=2, local_epochs=1, batch_size=4, test_every=1)
    asked = {"fed": federation(task), "model": model, "model_options": options, "budget": budget,
             "settings": [{"lr": 0.05}, {"lr": 0.2}], "algorithm_options": OPTIONS.get(algorithm)}  # fmt: skip
    assert_close(train(algorithm, path="stack", **asked), train(algorithm, path="loop", **asked))


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_outcomes_are_in_settings_major_order(path: str) -> None:
    found = train(settings=[{"lr": 0.1}, {"lr": 0.2}], path=path)
    assert [(each.hyperparameters["lr"], each.seed) for each in found] == [(0.1, 2), (0.1, 9), (0.2, 2), (0.2, 9)]
    assert {each.path for each in found} == {path}


def test_several_stacks_give_the_numbers_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [{"lr": lr} for lr in (0.01, 0.02, 0.05, 0.1, 0.2)]
    together = train(settings=settings)
    monkeypatch.setattr(driver, "STACKED_WEIGHTS", 2 * 2 * 3 * 151)  # two settings x two seeds x three clients
    parts = engine.run(
        federation(), algorithm="fedavg", model="mlp", settings=settings, seeds=[2, 9], budget=BUDGET, path="stack"
    )
    sizes = [rounds.mapper.sizes["H"] for rounds, *_ in parts.models.values()]
    assert sizes == [2] * 8 + [1] * 2
    assert_close(parts.outcomes, together, 1e-6)
    rounds, personal = parts.personal(7, 1, "latest")
    assert rounds.run_batch.settings[1] == {"lr": 0.1}
    assert personal["w"].shape == (151,)


@pytest.mark.parametrize("algorithm", ["fedavg", "apfl", "scaffold"])
def test_neighbours_do_not_change_a_run(algorithm: str) -> None:
    options = {"hidden": 4, "dropout": 0.5}
    crowd = train(algorithm, model_options=options, settings=[{"lr": 0.3}, {"lr": 0.05}], seeds=[7, 2, 9])
    alone = train(algorithm, model_options=options, seeds=[2])
    assert_close([crowd[4]], alone, 1e-6)


def test_gathering_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    together = train()
    monkeypatch.setattr("bench.train.mapping.stack.Stack.gathered", 1)
    assert train() == together


# --- data and initial weights ------------------------------------------------------------------------------------


def test_seeds_change_splits_batches_and_initial_weights_of_named_models() -> None:
    first, second = (outcome.validation for outcome in train())
    assert first[0] != second[0]
    again = train(seeds=[9, 2])
    assert_close(again[::-1], train(), 1e-6)


def test_every_run_starts_from_the_weights_of_a_module() -> None:
    module = nn.Linear(13, 1)
    for outcome_seed in (0, 1):
        found = engine.run(
            federation(), algorithm="local", model=module, settings=[{"lr": 1e-30}], seeds=[outcome_seed],
            budget=BUDGET, path="stack",
        )  # fmt: skip
        rounds, personal = found.personal(0, 0, "latest")
        torch.testing.assert_close(
            rounds.run_batch.models[0].state_dict(personal["w"]), dict(module.state_dict()), rtol=0, atol=0
        )


def test_clients_of_a_named_model_start_from_the_same_weights() -> None:
    found = engine.run(
        federation(),
        algorithm="local",
        model="mlp",
        settings=[{"lr": 1e-30}],
        seeds=[0, 1],
        budget=BUDGET,
        path="stack",
    )
    weights = [[found.personal(run, client, "latest")[1]["w"] for client in range(3)] for run in range(2)]
    assert torch.equal(weights[0][0], weights[0][2])
    assert not torch.equal(weights[0][0], weights[1][0])


def relabelled(fed: Federation) -> Federation:
    """Return the federation with the classes of all test samples swapped."""
    clients = [dataclasses.replace(each, test=Split(each.test.x, 1 - each.test.y)) for each in fed.clients]
    return dataclasses.replace(fed, clients=tuple(clients))


def test_test_samples_decide_nothing_but_scores() -> None:
    asked = {"algorithm": "fedavg", "model": "mlp", "settings": [{"lr": 0.05}, {"lr": 0.5}], "seeds": [0],
             "budget": dataclasses.replace(BUDGET, test_every=1), "path": "stack"}  # fmt: skip
    true, swapped = engine.run(federation(), **asked), engine.run(relabelled(federation()), **asked)
    for number, (a, b) in enumerate(zip(true.outcomes, swapped.outcomes, strict=True)):
        assert a.validation == b.validation
        for score, other in zip(a.scores, b.scores, strict=True):
            assert score[-1] == pytest.approx(1 - other[-1])
        for points in zip(a.curves["scores"]["accuracy"], b.curves["scores"]["accuracy"], strict=True):
            assert points[0] == pytest.approx([1 - value for value in points[1]])
        for rule in ("latest", "global", "local"):
            kept = [found.personal(number, 1, rule)[1]["w"] for found in (true, swapped)]
            assert torch.equal(*kept)


@pytest.mark.parametrize("algorithm", ["apfl", "central", "local"])
@pytest.mark.parametrize("path", ["stack", "loop"])
def test_learning_curves_are_of_own_models_and_end_at_the_latest_scores(algorithm: str, path: str) -> None:
    fed = dataclasses.replace(federation(), metrics=("balanced_accuracy", "accuracy"))
    budget = dataclasses.replace(BUDGET, rounds=5, test_every=2)
    curved, plain = (
        train(algorithm, fed, budget=each, path=path, settings=[{"lr": 0.05}, {"lr": 0.5}])
        for each in (budget, dataclasses.replace(budget, test_every=0))
    )
    for outcome, without in zip(curved, plain, strict=True):
        assert dataclasses.replace(outcome, curves={}) == without
        assert outcome.curves["rounds"] == [2, 4, 5]
        for name in fed.metrics:
            own = [
                value for rule, model, client, metric, value in outcome.scores
                if (rule, metric) == ("latest", name) and (model == client or algorithm == "central")
            ]  # fmt: skip
            assert outcome.curves["scores"][name][-1] == own
        assert json.loads(json.dumps([outcome.curves, outcome.traces])) == [outcome.curves, outcome.traces]


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_points_of_a_curve_are_the_scores_of_shorter_runs(path: str) -> None:
    budget = dataclasses.replace(BUDGET, rounds=4, test_every=1, evaluate="trained")
    [whole] = train("fedper", budget=budget, seeds=[0], path=path)
    for rounds in (1, 3):
        [shorter] = train("fedper", budget=dataclasses.replace(budget, rounds=rounds), seeds=[0], path=path)
        assert whole.curves["scores"]["accuracy"][:rounds] == shorter.curves["scores"]["accuracy"]


def test_a_client_without_test_samples_trains_and_is_not_scored() -> None:
    fed = federation()
    budget = dataclasses.replace(BUDGET, test_every=1)
    blind = dataclasses.replace(
        fed, clients=(fed.clients[0], dataclasses.replace(fed.clients[1], test=None), fed.clients[2])
    )
    for path in ("stack", "loop"):
        [outcome] = train(fed=blind, seeds=[2], path=path, budget=budget)
        [full] = train(seeds=[2], path=path, budget=budget)
        assert outcome.validation == full.validation
        assert outcome.scores == tuple(score for score in full.scores if score[2] != 1)
        for (a, none, c), point in zip(*(each.curves["scores"]["accuracy"] for each in (outcome, full)), strict=True):
            assert none is None
            assert [a, c] == [point[0], point[2]]


# --- validation and checkpoints --------------------------------------------------------------------------------------


class Shift(nn.Module):
    """A model of one weight, which may have no effect."""

    def __init__(self, effect: float) -> None:
        super().__init__()
        self.shift, self.effect = nn.Parameter(torch.ones(1)), effect

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1] + self.effect * self.shift


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("effect", [1.0, 0.0])
def test_checkpoints_are_the_best_rounds_and_the_later_of_equals(path: ExecutionPath, effect: float) -> None:
    # Large steps make the loss go up and down. A weight without effect decays while all rounds are equally good.
    optimizer = "sgd" if effect else "adamw"
    budget = Budget(rounds=5, local_steps=1, batch_size=2, optimizer=optimizer)
    asked = {"algorithm": "local", "model": Shift(effect), "settings": [{"lr": 3.0}], "seeds": [0, 1], "path": path}
    rounds = [
        engine.run(federation(), budget=dataclasses.replace(budget, rounds=n + 1), **asked)
        for n in range(budget.rounds)
    ]
    chosen = set()
    for run, outcome in enumerate(rounds[-1].outcomes):
        by_round = torch.tensor(outcome.validation)
        n_val = torch.tensor([4.0, 2.0, 1.0])  # a fifth of 23, 11 and 6
        torch.testing.assert_close(torch.tensor(outcome.aggregated), (by_round * n_val).sum(1) / n_val.sum())
        for client in range(3):
            best = {
                "latest": budget.rounds - 1,
                "global": last_lowest(list(outcome.aggregated)),
                "local": last_lowest(by_round[:, client].tolist()),
            }
            for rule, number in best.items():
                kept = rounds[-1].personal(run, client, rule)[1]["w"]
                assert torch.equal(kept, rounds[number].personal(run, client, "latest")[1]["w"])
                chosen.add((rule, number))
    if effect:
        assert len(chosen) > 4  # the rules select different rounds
    else:
        assert {number for _, number in chosen} == {budget.rounds - 1}


def last_lowest(losses: list[float]) -> int:
    return max(number for number, loss in enumerate(losses) if loss == min(losses))


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_without_validation_there_is_only_the_latest(path: str) -> None:
    [outcome] = train(seeds=[0], budget=dataclasses.replace(BUDGET, validation=0.0), path=path)
    assert {score[0] for score in outcome.scores} == {"latest"}
    assert outcome.validation == ((None, None, None),) * 3
    assert outcome.aggregated == (None,) * 3
    assert outcome.status == "finished"


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_a_client_too_small_to_hold_out_samples_has_no_validation_loss(path: ExecutionPath) -> None:
    # A tenth of 23, 11 and 6 samples: 2, 1 and none.
    budget = dataclasses.replace(BUDGET, validation=0.1)
    found = engine.run(
        federation(), algorithm="fedavg", model="mlp", settings=[{"lr": 0.05}], seeds=[0], budget=budget, path=path
    )
    [outcome] = found.outcomes
    for (a, b, c), aggregated in zip(outcome.validation, outcome.aggregated, strict=True):
        assert c is None
        assert aggregated == pytest.approx((2 * a + b) / 3)
    assert outcome.status == "finished"
    assert torch.equal(found.personal(0, 2, "local")[1]["w"], found.personal(0, 2, "latest")[1]["w"])


# --- divergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("metrics", [("accuracy",), ("auroc", "balanced_accuracy")])
def test_a_diverging_run_has_no_numbers_and_leaves_its_neighbours_alone(metrics: tuple[str, ...], path: str) -> None:
    fed = dataclasses.replace(federation("multiclass", test=30), metrics=metrics)
    model = nn.Sequential(nn.Linear(13, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    budget = dataclasses.replace(BUDGET, test_every=1)
    good, bad, better = train(
        fed=fed, model=model, settings=[{"lr": 0.05}, {"lr": 1e6}, {"lr": 0.01}], seeds=[0], path=path, budget=budget
    )
    assert bad.status == "diverged"
    assert bad.diverged is not None
    assert (bad.diverged["round"], bad.diverged["client"]) == (0, 0)
    assert "not finite" in bad.diverged["what"] or "nan" in bad.diverged["what"]
    assert len(bad.scores) == len(good.scores)
    assert {score[-1] for score in bad.scores} == {None}
    assert bad.validation[-1] == (None, None, None)
    assert good.status == better.status == "finished"
    assert all(math.isfinite(score[-1]) for score in good.scores + better.scores)
    assert {value for points in bad.curves["scores"].values() for point in points for value in point} == {None}
    without = train(fed=fed, model=model, settings=[{"lr": 0.05}, {"lr": 0.01}], seeds=[0], path=path, budget=budget)
    assert_close([good, better], without, 1e-6)


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_a_learning_curve_ends_where_a_run_diverges(path: str) -> None:
    # Steps so large that weights overflow, but not in the first round.
    budget = Budget(rounds=6, local_steps=4, batch_size="full", test_every=1)
    model = nn.Sequential(nn.Linear(13, 4), nn.Linear(4, 3))
    [outcome] = train("apfl", federation("multiclass"), model=model, settings=[{"lr": 30.0}], seeds=[0], budget=budget,
                      path=path)  # fmt: skip
    assert outcome.diverged is not None
    last = outcome.diverged["round"]
    assert 0 < last < budget.rounds - 1
    scores = outcome.curves["scores"]["accuracy"]
    assert all(value is not None for point in scores[:last] for value in point)
    assert {value for point in scores[last:] for value in point} == {None}
    assert json.dumps(outcome.traces, allow_nan=False)


# --- models ----------------------------------------------------------------------------------------------------------


class Own(nn.Module):
    """A user's module that may compute a probability in its forward."""

    def __init__(self, sigmoid: bool) -> None:
        super().__init__()
        self.first, self.second, self.sigmoid = nn.Linear(13, 6), nn.Linear(6, 1), sigmoid

    def forward(self, x: Tensor) -> Tensor:
        z = self.second(torch.tanh(self.first(x)))
        return torch.sigmoid(z) if self.sigmoid else z


def test_logits_and_probabilities_are_one_model() -> None:
    model, same = Own(sigmoid=True), Own(sigmoid=False)
    same.load_state_dict(model.state_dict())
    for path in ("stack", "loop"):
        assert_close(train(model=model, path=path), train(model=same, path=path))


def test_the_path_is_chosen_alike_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, int]] = []
    longest = Mapper.longest

    def noted(mapper: Mapper, name: str) -> Captured:
        step = longest(mapper, name)
        counted.append((step.operations, step.written))
        return step

    monkeypatch.setattr(Mapper, "longest", noted)
    with_kernels = train(path="auto")
    monkeypatch.setattr(Kernel, "functions", None)
    assert [each.path for each in train(path="auto")] == [each.path for each in with_kernels]
    assert counted[0] == counted[1]


def test_denormals_are_flushed_to_zero_while_training() -> None:
    tiny, seen = torch.tensor(1e-40), []
    train(tell=lambda *progress: seen.append((tiny * 1).item()))
    assert set(seen) == {0.0}
    assert (tiny * 1).item() > 0


def test_a_parallel_algorithm_takes_the_parallel_form_of_a_named_model() -> None:
    assert_close(train("fenda", model="mlp", model_options={"hidden": 3}),
                 train("fenda", model="parallel_mlp", model_options={"hidden": 3}))  # fmt: skip


def test_parameters_are_those_of_the_personal_model() -> None:
    assert [train(name, seeds=[0])[0].parameters for name in ("fedavg", "apfl")] == [151, 302]


def test_clients_with_features_of_their_own_are_looped_and_tested_where_their_models_fit() -> None:
    def client(name: str, features: int) -> Client:
        x = torch.randn(12, features, generator=torch.Generator().manual_seed(features))
        y = (x[:, :1] > 0).float()
        return Client(name, Split(x, y), Split(x, y))

    fed = Federation("own features", (client("a", 3), client("b", 5), client("c", 3)), "binary")
    [outcome] = train("local", fed, seeds=[0], path="auto")
    assert (outcome.status, outcome.path) == ("finished", "loop")
    latest = {score[1:3] for score in outcome.scores if score[0] == "latest"}
    assert latest == {(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)}
    # 10 hidden units for 3 or 5 features, each with a bias, and an output.
    assert (outcome.parameters, outcome.client_parameters) == (51, (51, 71, 51))
