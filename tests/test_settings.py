"""Hyper-parameters of optimisers and algorithms are checked against their allowed values."""

from __future__ import annotations

from typing import Any

import pytest

from bench.settings import DEFAULTS, OPTIONAL, resolve
from bench.types import SpecError


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


def test_defaults_of_optimisers_are_allowed() -> None:
    for optimizer, known in DEFAULTS.items():
        for name, each in known.items():
            each.allowed.check(f"{optimizer}.{name}", each.default)
    OPTIONAL["sgd"]["lr_decay"].check("no decay", 1.0)
