"""Networks for images refuse other inputs in one line."""

from __future__ import annotations

import pytest
import torch

from bench import registry
from bench.types import SpecError

SMALLEST = {"cnn": 4, "parallel_cnn": 4, "apple_cnn": 16, "player_fmnist": 8, "player_cifar": 1, "player_isic": 8}


@pytest.mark.parametrize("name", [*SMALLEST, "efficientnet_b0"])
def test_a_table_is_no_image(name: str) -> None:
    with pytest.raises(SpecError, match=r"takes images \(channels, height, width\), not inputs of shape \(64,\)"):
        registry.load("models", name)((64,), 10)


@pytest.mark.parametrize(("name", "side"), SMALLEST.items())
def test_the_smallest_image_has_an_output_and_a_smaller_one_is_refused(name: str, side: int) -> None:
    build = registry.load("models", name)
    assert build((3, side, side), 10)(torch.randn(2, 3, side, side)).shape == (2, 10)
    if side > 1:
        with pytest.raises(
            SpecError, match=f"takes images of at least {side} x {side} pixels, not {side} x {side - 1}"
        ):
            build((3, side, side - 1), 10)
