"""APPLE's network: its number of parameters on each of the paper's data sets."""

from __future__ import annotations

import pytest

from bench.models.apple import apple_cnn
from bench.models.functional import Model


@pytest.mark.parametrize(
    ("inputs", "outputs", "layers"),
    [
        ((1, 28, 28), 10, [520, 25_050, 400_500, 5_010]),  # MNIST: 431,080
        ((3, 28, 28), 10, [1_520, 25_050, 400_500, 5_010]),  # CIFAR-10 at 28x28: 432,080
        ((3, 32, 32), 10, [1_520, 25_050, 625_500, 5_010]),  # CIFAR-10 as it is: 657,080
        ((1, 28, 28), 11, [520, 25_050, 400_500, 5_511]),  # OrganMNIST: 431,581
        ((3, 28, 28), 9, [1_520, 25_050, 400_500, 4_509]),  # PathMNIST: 431,579
    ],
)
def test_parameters(inputs: tuple[int, ...], outputs: int, layers: list[int]) -> None:
    model = Model(apple_cnn(inputs, outputs))
    assert model.layer_sums(model.initial * 0 + 1).tolist() == layers
    assert model.trainable == model.size == sum(layers)
