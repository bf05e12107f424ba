"""Models that do not fit the data."""

from __future__ import annotations

import pytest
from torch import nn

from bench import registry
from bench.train.build import build_model
from bench.types import SpecError
from tests.train.toy import federation


def test_a_model_that_refuses_the_shape_names_the_data_set() -> None:
    with pytest.raises(
        SpecError, match=r"^toy: cnn takes images .*, not inputs of shape \(13,\); choose another model$"
    ):
        build_model("cnn", federation())


def test_a_factory_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(inputs: tuple[int, ...], outputs: int) -> nn.Module:
        channels, height, width = inputs
        return nn.Linear(channels * height * width, outputs)

    monkeypatch.setattr(registry, "check_options", lambda *given: None)
    monkeypatch.setattr(registry, "load", lambda *given: factory)
    with pytest.raises(SpecError, match=r"^model flat does not fit toy, whose samples have shape \(13,\): not enough"):
        build_model("flat", federation())
