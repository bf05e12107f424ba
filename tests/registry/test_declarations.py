"""Hyper-parameters, options and flags are those of the imported classes and functions; options are checked."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from bench import registry
from bench.train import engine
from bench.types import Budget, SpecError
from tests.train.toy import federation

ALGORITHMS = registry.catalogue("algorithms")


def test_algorithms_declare_the_fields_of_their_classes() -> None:
    for name in ALGORITHMS:
        fields = dataclasses.fields(registry.load("algorithms", name))
        own = {each.name: each.default for each in fields if each.metadata.get("searchable")}
        assert {key: each.default for key, each in registry.hyperparameters(name).items()} == own
        assert registry.defaults("algorithms", name) == {e.name: e.default for e in fields if e.name not in own}


@pytest.mark.parametrize(("kind", "leading"), [("models", 2), ("datasets", 1)])
def test_models_and_data_sets_declare_their_parameters(kind: registry.Kind, leading: int) -> None:
    for name in registry.catalogue(kind):
        parameters = list(inspect.signature(registry.load(kind, name)).parameters.values())[leading:]
        assert registry.options(kind, name) == [each.name for each in parameters]
        assert registry.defaults(kind, name) == {each.name: each.default for each in parameters}


def test_flags_are_inherited() -> None:
    assert registry.flags("perfcl")["parallel"] is True
    assert registry.flags("fedprox")["optimizers"] == ("adamw", "sgd")
    assert registry.flags("apple")["excluded"] == ("weight_decay",)


def test_intervals_to_search_are_allowed() -> None:
    for name in ALGORITHMS:
        for option, each in registry.hyperparameters(name).items():
            for end in each.log or ():
                each.allowed.check(f"{name}.{option}", end)


@pytest.mark.parametrize(
    ("algorithm", "algorithm_options", "model_options", "message"),
    [
        ("fedrep", {"head_epochs": -1}, {}, "head_epochs = -1: expected a whole number of at least 0"),
        ("fedavg_ft", {"epochs": None}, {}, "epochs = None: expected a whole number of at least 0"),
        ("fedamp", {"interval": 0}, {}, "interval = 0: expected a whole number of at least 1"),
        ("fedlama", {"factor": 0}, {}, "factor = 0: expected a whole number of at least 1"),
        ("apple", {"budget": 0}, {}, "budget = 0: expected a whole number of at least 1, or none"),
        ("fedprox", {"mu": 0.5}, {}, "mu is a hyper-parameter of fedprox, not an option; give it where lr is given"),
        ("fedavg_ft", {"epoch": 1}, {}, "algorithm fedavg_ft has no option 'epoch': did you mean 'epochs'?"),
        ("fedavg", {"epochs": 1}, {}, "algorithm fedavg has no option 'epochs': it has none"),
        ("fedavg", {}, {"dropout": 2.0}, "dropout = 2.0: expected a finite number of at least 0 and below 1"),
        ("fedavg", {}, {"hidden": [4, 0]}, "hidden = [4, 0]: expected a whole number or a list of whole numbers"),
    ],
)
def test_an_option_that_is_not_allowed_is_refused_before_training(
    algorithm: str, algorithm_options: Any, model_options: Any, message: str
) -> None:
    with pytest.raises(SpecError) as error:
        engine.run(
            federation(), algorithm=algorithm, algorithm_options=algorithm_options, model="mlp",
            model_options=model_options, settings=[{}], seeds=[1], budget=Budget(rounds=1, local_epochs=1),
        )  # fmt: skip
    assert message in str(error.value)
