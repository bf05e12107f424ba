"""FedAdam's kin: the server's first and second moments, worked by hand."""

from __future__ import annotations

import pytest
import torch

from bench.algorithms.fedadagrad import FedAdagrad
from bench.algorithms.fedadam import FedAdam
from bench.algorithms.fedyogi import FedYogi
from tests.algorithms.test_limits import by_hand

DELTA = -0.3125  # FedAvg's change in the first round of the two clients


def test_fedyogi_by_hand() -> None:
    # v begins below Delta^2 and grows: v = 1e-6 + 0.01 Delta^2 = 0.000978; m = 0.1 Delta.
    expected = 0.3 * 0.1 * DELTA / ((1e-6 + 0.01 * DELTA**2) ** 0.5 + 1e-3)
    assert by_hand("fedyogi", 1, server_lr=0.3).server(0)[1]["w"].item() == pytest.approx(expected, abs=1e-6)


def test_fedadagrad_by_hand() -> None:
    expected = 0.3 * DELTA / ((1e-6 + DELTA**2) ** 0.5 + 1e-3)
    assert by_hand("fedadagrad", 1, server_lr=0.3).server(0)[1]["w"].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "second_moment"),
    [
        (FedAdam, 0.99 * 1.0 + 0.01 * 0.25),  # goes a hundredth of the way from 1 to 0.5^2
        (FedYogi, 1.0 - 0.01 * 0.25),  # goes a hundredth of 0.5^2, wherever it is
        (FedAdagrad, 1.0 + 0.25),  # only grows
    ],
)
def test_second_moment_above_the_square(kind: type[FedAdam], second_moment: float) -> None:
    server = {"w": torch.zeros(1), "m": torch.zeros(1), "v": torch.ones(1)}
    uploads = {"w": torch.tensor([[0.2], [0.6]])}
    after = kind(server_lr=0.1).aggregate(server, uploads, torch.tensor([0.25, 0.75]))
    assert after["v"].item() == pytest.approx(second_moment)
    m = 0.5 * (1 - kind.beta1)
    assert after["m"].item() == pytest.approx(m)
    assert after["w"].item() == pytest.approx(0.1 * m / (second_moment**0.5 + kind.tau))
