"""The Python interface as documented, on real digits and on small arrays, and every way to ask wrongly."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import bench
from bench.api import Result
from bench.types import Budget
from tests.train.toy import federation


@pytest.fixture(scope="module")
def digits() -> bench.Federation:
    return bench.load_dataset("digits")


@pytest.fixture(scope="module")
def example(digits: bench.Federation) -> Result:
    """The documented example: a grid over one of two hyper-parameters."""
    return bench.run(
        digits, algorithm="fedprox", model="mlp", hyperparameters={"lr": [1e-3, 1e-2], "mu": 0.1}, rounds=2,
        local_epochs=1, batch_size=32, optimizer="adamw", seeds=[1, 2], validation=0.2,
    )  # fmt: skip


def accuracy(model: nn.Module, state: dict[str, Tensor], client: bench.Client) -> float:
    model.load_state_dict(state)
    assert client.test is not None
    with torch.no_grad():
        guess = model.eval()(client.test.x).argmax(1)
    return (guess == client.test.y).float().mean().item()


def fresh_mlp() -> nn.Module:
    from bench.models.tabular import mlp

    return mlp((64,), 10)


# --- the example -----------------------------------------------------------------------------------------------------


def test_scores_have_a_row_per_run_client_checkpoint_and_metric(example: Result) -> None:
    scores = example.scores
    assert list(scores) == ["run", "seed", "lr", "mu", "weight_decay", "client", "checkpoint", "metric", "value"]
    keys = ["run", "client", "checkpoint", "metric"]
    expected = pd.MultiIndex.from_product([range(4), range(6), ["latest", "global", "local"], ["accuracy"]])
    assert set(scores.set_index(keys).index) == set(expected)
    assert len(scores) == len(expected)
    runs = scores.drop_duplicates(["run", "seed", "lr", "mu", "weight_decay"])
    assert runs.run.tolist() == [0, 1, 2, 3]
    assert runs.lr.tolist() == [1e-3, 1e-3, 1e-2, 1e-2]
    assert runs.seed.tolist() == [1, 2, 1, 2]
    assert set(runs.mu) == {0.1}
    assert scores.value.between(0, 1).all()


def test_history_has_every_rounds_losses_and_their_mean(example: Result, digits: bench.Federation) -> None:
    history = example.history
    assert list(history) == ["run", "seed", "lr", "mu", "weight_decay", "round", "client", "loss"]
    assert len(history) == 4 * 2 * 7
    held_out = [int(len(client.train) * 0.2) for client in digits.clients]
    for _, losses in history.groupby(["run", "round"]):
        by_client = losses.set_index("client").loss
        mean = sum(n * by_client[c] for c, n in enumerate(held_out)) / sum(held_out)
        assert by_client[-1] == pytest.approx(mean, rel=1e-5)


def test_weights_reproduce_the_scores(example: Result, digits: bench.Federation) -> None:
    for row in example.scores[example.scores.run.isin([0, 3])].itertuples():
        state = example.weights(run=row.run, client=row.client, checkpoint=row.checkpoint)
        assert accuracy(fresh_mlp(), state, digits.clients[row.client]) == pytest.approx(row.value, abs=1e-6)


def test_the_global_model_is_everybodys_latest(example: Result) -> None:
    for client in range(6):
        torch.testing.assert_close(example.weights(3, client), example.global_weights(3), rtol=0, atol=0)


def test_runs_say_how_they_went(example: Result) -> None:
    assert set(example.runs.status) == {"finished"}
    assert (example.runs.parameters == 760).all()
    assert (example.runs[["up", "down"]] == 760).all(axis=None)
    assert set(example.runs.path) <= {"stack", "loop"}


# --- algorithms of other kinds ---------------------------------------------------------------------------------------


def run(algorithm: str, model: str | nn.Module = "mlp", **changes: Any) -> Result:
    asked: dict[str, Any] = {"hyperparameters": {"lr": 0.05}, "rounds": 2, "local_steps": 2, "batch_size": 4}
    return bench.run(federation(), algorithm, model, **{"path": "stack"} | asked | changes)


def test_local_models_are_scored_on_their_own_and_crosswise_on_all_clients() -> None:
    result = run("local")
    cross = result.cross_scores.query("checkpoint == 'latest'")
    assert sorted(zip(cross.model, cross.client, strict=True)) == [(i, j) for i in range(3) for j in range(3)]
    own = result.scores.query("checkpoint == 'latest'")
    assert own.value.tolist() == cross[cross.model == cross.client].value.tolist()
    with pytest.raises(bench.SpecError, match="local has no global model"):
        result.global_weights()


def test_the_central_model_is_scored_on_every_client() -> None:
    result = run("central", checkpoint="latest")
    assert result.scores.client.tolist() == [0, 1, 2]
    assert result.scores.value.tolist() == result.cross_scores.value.tolist()
    assert set(result.cross_scores.model) == {0}
    torch.testing.assert_close(result.weights(client=2), result.weights(client=0), rtol=0, atol=0)


def test_curves_have_a_row_per_point_client_and_metric() -> None:
    result = run("fedavg", hyperparameters={"lr": [0.05, 0.1]}, rounds=5, test_every=2)
    assert list(result.curves) == ["run", "seed", "lr", "rounds", "client", "metric", "value"]
    points = pd.MultiIndex.from_product([range(2), [2, 4, 5], range(3), ["accuracy"]])
    assert result.curves.set_index(["run", "rounds", "client", "metric"]).index.tolist() == points.tolist()
    last = result.curves[result.curves.rounds == 5].value.tolist()
    assert last == result.scores[result.scores.checkpoint == "latest"].value.tolist()
    without = run("fedavg")
    assert without.curves.empty
    assert without.traces.empty
    assert list(without.curves) == list(result.curves)


def test_traces_have_a_row_per_round_client_and_entry() -> None:
    p = run("apple", evaluate="trained").traces
    assert list(p)[-5:] == ["round", "client", "name", "entry", "value"]
    assert p[["round", "client", "entry"]].to_numpy().tolist() == [
        [round_, client, other] for round_ in range(2) for client in range(3) for other in range(3)
    ]
    assert set(p.name) == {"p"}
    result = run("apfl")
    alpha = result.traces
    last = alpha[alpha["round"] == 1].value.tolist()
    assert last == [result.weights(client=client)["alpha"].item() for client in range(3)]


@pytest.mark.parametrize("algorithm", ["apple", "fedamp", "heurfedamp", "fedfomo", "pfedla"])
def test_algorithms_without_a_global_model_say_so(algorithm: str) -> None:
    with pytest.raises(bench.SpecError, match=f"{algorithm} has no global model; read a client's model with weights"):
        run(algorithm, rounds=1).global_weights()


def test_only_shared_weights_are_global() -> None:
    result = run("fenda")
    shared = result.global_weights()
    assert set(shared) == {"global_extractor.1.weight", "global_extractor.1.bias"}
    personal = [result.weights(client=client) for client in range(2)]
    for name in personal[0]:
        assert torch.equal(personal[0][name], personal[1][name]) == (name in shared)


def test_a_personal_model_of_two_parts_names_both() -> None:
    weights = run("apfl", nn.Linear(13, 1)).weights(client=1)
    assert set(weights) == {"v.weight", "v.bias", "w.weight", "w.bias", "alpha"}
    assert 0 <= weights["alpha"] <= 1


def test_a_module_with_batch_norm_gets_its_weights_back() -> None:
    module = nn.Sequential(nn.Linear(13, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    result = bench.run(federation(), "fedavg", module, rounds=1, local_steps=2, batch_size=6)
    for state in (result.weights(client=1), result.global_weights()):
        module.load_state_dict(state)


def test_own_arrays_without_test_samples_train_and_are_not_scored() -> None:
    x = np.linspace(-1, 1, 20)[:, None]
    clients = [{"train": (x, x[:, 0] > 0)}, {"train": (x, x[:, 0] > 0.5)}]
    fed = bench.Federation.from_arrays(clients)
    result = bench.run(fed, "fedavg", "logistic", rounds=1, local_steps=1, batch_size="full")
    assert result.scores.empty
    assert "value" in result.scores
    assert result.history.loss.notna().all()


def test_a_client_with_one_class_has_accuracy_but_no_auroc() -> None:
    x = np.linspace(-1, 1, 20)[:, None]
    mixed = {"train": (x, x[:, 0] > 0), "test": (x, x[:, 0] > 0)}
    fed = bench.Federation.from_arrays([mixed, mixed | {"test": (x, x[:, 0] > 2)}], metrics=("accuracy", "auroc"))
    scores = bench.run(fed, "fedavg", "logistic", rounds=1, local_steps=1, checkpoint="latest").scores
    values = scores.set_index(["client", "metric"]).value
    assert values[0, "auroc"] == 1 or values[0, "auroc"] == 0  # a line through one feature orders perfectly
    assert np.isnan(values[1, "auroc"])
    assert values[1, "accuracy"] >= 0


def test_a_diverged_run_shows_no_numbers() -> None:
    deep = nn.Sequential(nn.Linear(13, 8), nn.Linear(8, 8), nn.Linear(8, 1))
    result = run("fedavg", deep, hyperparameters={"lr": [0.05, 1e9]})
    assert result.runs.status.tolist() == ["finished", "diverged"]
    assert result.scores[result.scores.run == 1].value.isna().all()
    assert result.scores[result.scores.run == 0].value.notna().all()


def test_only_the_checkpoints_asked_for_are_shown() -> None:
    result = run("fedavg", checkpoint=["local", "latest"])
    assert set(result.scores.checkpoint) == {"local", "latest"}
    with pytest.raises(bench.SpecError, match="no checkpoint 'global'; this run has local, latest"):
        result.weights(checkpoint="global")
    with pytest.raises(bench.SpecError, match="no checkpoint 'local'; this run has latest"):
        run("fedavg", validation=0.0).weights(checkpoint="local")


# --- asking wrongly --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "fedavgg"}, "unknown algorithm 'fedavgg': did you mean 'fedavg'?"),
        ({"model": "logistics"}, "unknown model 'logistics': did you mean 'logistic'?"),
        ({"model_options": {"hiden": 3}}, "model mlp has no option 'hiden': did you mean 'hidden'?"),
        ({"hyperparameters": {"lrr": 0.1}}, "fedprox with sgd has no hyper-parameter 'lrr': did you mean 'lr'?"),
        ({"hyperparameters": {"alpha": 0.1}}, "fedprox with sgd has no hyper-parameter 'alpha': expected one of "),
        ({"hyperparameters": {"lr": []}}, "hyper-parameter lr = []: expected at least one value"),
        ({"hyperparameters": {"lr": float("nan")}}, "hyper-parameter lr = nan: expected a finite number"),
        ({"hyperparameters": {"lr": [0.1, "0.2"]}}, "hyper-parameter lr = '0.2': expected a finite number"),
        ({"hyperparameters": {"mu": True}}, "hyper-parameter mu = True: expected a finite number"),
        ({"checkpoint": "lattest"}, "unknown checkpoint rule 'lattest': did you mean 'latest'?"),
        ({"checkpoint": []}, "checkpoint = []: expected at least one of latest, global, local"),
        ({"checkpoint": "local", "validation": 0}, "checkpoint 'local' needs validation samples; increase validation"),
        ({"checkpoint": ["latest", "global"], "validation": 0.0}, "checkpoint 'global' needs validation samples"),
        ({"algorithm": None}, "algorithm = None: expected a name from `silobench list algorithms`"),
        ({"model": None}, "model = None: expected a name from `silobench list models` or a torch.nn.Module"),
        ({"model": nn.Linear}, "model is the class Linear; expected an instance, e.g. Linear()"),
        (
            {"model": nn.Linear(13, 1), "model_options": {"hidden": 3}},
            "model_options: not used with a module; set its options where it is built",
        ),
        ({"model_options": 3}, "model_options = 3: expected a dictionary of names and values"),
        ({"hyperparameters": ["lr"]}, "hyperparameters = ['lr']: expected a dictionary of names and values"),
        ({"algorithm_options": {"mu": 0.1}}, "mu is a hyper-parameter of fedprox, not an option; give it where lr"),
        ({"model_options": {3: 1}}, "model mlp has no option 3: expected one of dropout, hidden"),
        ({"algorithm_options": {"nu": 0.1}}, "algorithm fedprox has no option 'nu'"),
        ({"algorithm": "fedamp", "algorithm_options": {"interval": 0}}, "interval = 0: expected a whole number of at"),
        ({"hyperparameters": {"mu": -5}}, "hyper-parameter mu = -5: expected a finite number of at least 0"),
        ({"path": "stacked"}, "path = 'stacked': did you mean 'stack'?"),
        ({"optimizer": "adam"}, "optimizer = 'adam': did you mean 'adamw'?"),
        ({"algorithm": "scaffold", "optimizer": "adamw"}, "scaffold is defined for optimizer sgd, not 'adamw'"),
        (
            {"algorithm": "scaffold", "hyperparameters": {"momentum": 0.9}},
            "scaffold with sgd has no hyper-parameter 'momentum'",
        ),
        ({"batch_size": 0}, "batch_size = 0: expected a whole number from 1 to 1,000,000"),
        ({"batch_size": "ful"}, "batch_size = 'ful': expected a whole number from 1 to 1,000,000"),
        ({"rounds": 0}, "rounds = 0: expected a whole number from 1 to 1,000,000"),
        ({"rounds": 1.5}, "rounds = 1.5: expected a whole number from 1 to 1,000,000"),
        ({"local_epochs": 1}, "give exactly one of local_steps and local_epochs"),
        ({"local_steps": None}, "give exactly one of local_steps and local_epochs"),
        ({"evaluate": "train"}, "evaluate = 'train': did you mean 'trained'?"),
        ({"optimizer_state": "kept"}, "optimizer_state = 'kept': did you mean 'keep'?"),
        ({"test_every": -1}, "test_every = -1: expected a whole number of rounds up to 1,000,000, or 0 for no curves"),
        ({"validation": 1.0}, "validation = 1.0: expected a share of at least 0 and below 1"),
        ({"seeds": []}, "no seeds: give at least one"),
        ({"seeds": 3}, "seeds = 3: expected a list of whole numbers, e.g. seeds = [3]"),
        ({"seeds": [1, 2, 1]}, "a seed occurs more than once"),
        ({"seeds": [0.5]}, "seed 0.5: expected a whole number"),
        ({"algorithm": "fenda", "model": nn.Linear(13, 1)}, "fenda needs a model with local_extractor, global_"),
        ({"algorithm": "fedper", "model": "logistic"}, "fedper shares no weight of this model"),
        ({"model": nn.Linear(13, 2)}, "its output for 2 samples has shape (2, 2)"),
        ({"model": nn.Linear(12, 1)}, "model Linear does not fit"),
        ({"model": nn.ReLU()}, "model ReLU has no trainable parameters"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_run_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(bench.SpecError) as caught:
        run(**{"algorithm": "fedprox", "model": "mlp"} | changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_metric_is_refused_with_the_arrays() -> None:
    with pytest.raises(bench.SpecError, match="unknown metric 'acuracy': did you mean 'accuracy'"):
        bench.Federation.from_arrays([{"x": [[0.0], [1.0]], "y": [0, 1]}], metrics=("acuracy",))
    with pytest.raises(bench.SpecError, match=r"metrics = 'auroc': expected a list of names, e.g. \['auroc'\]"):
        bench.Federation.from_arrays([{"x": [[0.0], [1.0]], "y": [0, 1]}], metrics="auroc")


def test_a_data_set_in_place_of_a_federation_is_one_line() -> None:
    with pytest.raises(bench.SpecError, match="federation is a str; expected a Federation, from load_dataset or"):
        bench.run("digits", "fedavg", "mlp", rounds=1, local_steps=1)


@pytest.mark.parametrize(
    ("run_", "client", "message"), [(4, 0, "no run 4"), (-1, 0, "no run -1"), (0, 3, "no client 3")]
)
def test_weights_that_are_not_there_are_refused(run_: int, client: int, message: str) -> None:
    with pytest.raises(bench.SpecError, match=f"there is {message}"):
        run("fedavg", seeds=[0, 1, 2, 3], rounds=1).weights(run_, client)


def test_the_fields_of_a_budget_are_arguments_of_run():
    parameters = inspect.signature(bench.run).parameters
    for field in dataclasses.fields(Budget):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert parameters[field.name].default == default


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"round": 3}, "unknown argument 'round': did you mean 'rounds'?"),
        ({"rounds": 3, "seed": 1}, "unknown argument 'seed': did you mean 'seeds'?"),
        ({"local_steps": 3}, "rounds is missing; give the number of rounds"),
    ],
)
def test_an_unknown_argument_is_answered_with_the_nearest(given, expected):
    with pytest.raises(bench.SpecError) as error:
        bench.run(None, "fedavg", "mlp", **given)
    assert str(error.value) == expected
