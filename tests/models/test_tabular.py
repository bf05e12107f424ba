"""Networks for feature vectors: parameters of FENDA-FL's Tables 9 and 11, and what a list of widths means."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.models.functional import Model
from bench.models.tabular import mlp, parallel_mlp
from bench.registry import check_options
from bench.types import SpecError


def weights(module: nn.Module) -> int:
    """Parameters as Table 9 counts those of GEMINI: without biases."""
    return sum(value.numel() for name, value in module.named_parameters() if name.endswith("weight"))


@pytest.mark.parametrize(
    ("module", "twins", "printed"),
    [
        pytest.param(mlp((35,), 2, hidden=[512, 256, 256, 32]), 1, 222784, id="mortality"),
        pytest.param(mlp((35,), 1, hidden=[256, 256, 128, 32]), 2, 222784, id="mortality, apfl"),
        pytest.param(
            parallel_mlp((35,), 1, hidden=[256, 256], head_hidden=[128, 64]), 1, 222784, id="mortality, fenda"
        ),
        pytest.param(mlp((8098,), 1, hidden=[1024, 512, 256, 128, 64]), 1, 8988736, id="delirium"),
        pytest.param(mlp((8098,), 1, hidden=[512, 512, 128, 128, 32]), 2, 8988736, id="delirium, apfl"),
        pytest.param(
            parallel_mlp((8093,), 1, hidden=[512, 8], global_hidden=[512, 512, 256, 128]), 1, 8717448,
            id="delirium, fenda",
        ),
        pytest.param(parallel_mlp((8093,), 1, hidden=[512, 256, 128, 64]), 1, 8631424, id="Table 11, 4 and 4 layers"),
    ],
)  # fmt: skip
def test_parameters_of_gemini(module: nn.Module, twins: int, printed: int) -> None:
    assert twins * weights(module) == printed


def test_a_width_is_a_list_of_one() -> None:
    x = torch.randn(5, 13)
    for make in (mlp, parallel_mlp):
        torch.manual_seed(0)
        one = make((13,), 1, hidden=4, dropout=0.3)
        torch.manual_seed(0)
        listed = make((13,), 1, hidden=[4], dropout=0.3)
        assert list(one.state_dict()) == list(listed.state_dict())
        assert torch.equal(one.eval()(x), listed.eval()(x))


def test_dropout_follows_every_hidden_layer() -> None:
    kinds = [type(layer) for layer in mlp((4,), 1, hidden=[3, 2], dropout=0.5).base]
    assert kinds == [nn.Flatten, nn.Linear, nn.ReLU, nn.Dropout, nn.Linear, nn.ReLU]
    assert isinstance(mlp((4,), 1, hidden=[3, 2], dropout=0.5).head[0], nn.Dropout)


def test_layers_are_numbered_through() -> None:
    assert len(Model(mlp((4,), 3, hidden=[3, 3, 3])).layers) == 4


@pytest.mark.parametrize("hidden", [0, [4, -1], [2.5], "ten"])
def test_widths_that_cannot_be(hidden: object) -> None:
    for option in ("hidden", "global_hidden"):
        with pytest.raises(SpecError, match=rf"{option} = .*: expected a whole number or a list of whole numbers"):
            check_options("models", "parallel_mlp", {option: hidden})


def test_an_empty_list_of_widths_is_refused() -> None:
    with pytest.raises(SpecError, match=r"hidden = \[\]: expected the width of a hidden layer, or a list of widths"):
        mlp((4,), 1, hidden=[])
