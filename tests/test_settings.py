"""Hyper-parameters of optimisers and algorithms are checked against their allowed values."""

from __future__ import annotations

from typing import Any

import pytest

from bench.settings import DEFAULTS, SCHEDULE, SCHEDULE_DEFAULTS, SCHEDULE_OPTIONAL, resolve
from bench.train.optim import schedules
from bench.types import Budget, SpecError


@pytest.mark.parametrize(
    ("algorithm", "hyperparameters", "message"),
    [
        ("fedavg", {"lr": -0.1}, "hyper-parameter lr = -0.1: expected a finite number above 0"),
        ("fedavg", {"lr": 0}, "hyper-parameter lr = 0: expected a finite number above 0"),
        ("fedavg", {"momentum": 1.0}, "momentum = 1.0: expected a finite number of at least 0 and below 1"),
        ("fedavg", {"weight_decay": -1}, "weight_decay = -1: expected a finite number of at least 0"),
        ("fedavg", {"lr_decay": 1.1}, "lr_decay = 1.1: expected a finite number above 0 and at most 1"),
        ("fedprox", {"mu": -5}, "hyper-parameter mu = -5: expected a finite number of at least 0"),
        ("fedlp", {"p": 2}, "hyper-parameter p = 2: expected a finite number of at least 0 and at most 1"),
        ("apfl", {"alpha": 1.5}, "hyper-parameter alpha = 1.5: expected a finite number of at least 0 and at most 1"),
    ],
)
def test_a_hyperparameter_out_of_its_range_is_refused(algorithm: str, hyperparameters: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        resolve(algorithm, "sgd", hyperparameters)
    assert message in str(error.value)


def test_defaults_of_optimisers_and_schedules_are_allowed() -> None:
    for optimizer, known in (DEFAULTS | SCHEDULE_DEFAULTS).items():
        for name, each in known.items():
            each.allowed.check(f"{optimizer}.{name}", each.default)
    SCHEDULE_OPTIONAL["exponential"]["lr_decay"].check("no decay", 1.0)


def test_settings_name_the_options_and_the_default_of_the_schedules() -> None:
    names = {name for each in (SCHEDULE_DEFAULTS, SCHEDULE_OPTIONAL) for options in each.values() for name in options}
    assert names == set(schedules.OPTIONS)
    assert Budget(rounds=1, local_steps=1).schedule == SCHEDULE
    for schedule in SCHEDULE_DEFAULTS:
        assert Budget(rounds=1, local_steps=1, schedule=schedule).schedule == schedule


def test_defaults_of_a_schedule_are_hyper_parameters_of_the_run() -> None:
    assert resolve("fedavg", "sgd", {}) == {"lr": 0.01}
    assert resolve("fedavg", "sgd", {}, "constant") == {"lr": 0.01}
    assert resolve("fedavg", "sgd", {"warmup": 3}, "step") == {
        "decay_every": 10,
        "lr": 0.01,
        "lr_decay": 0.1,
        "warmup": 3,
    }
    assert resolve("fedavg", "sgd", {}, "cosine") == {"lr": 0.01, "lr_final": 0}
