"""Layer statistics: variances by hand, the exact Hessian, and the invariances of similarities."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.nn.functional import cross_entropy

from bench.models.functional import Model
from bench.train.layer_statistics import statistics
from bench.types import SpecError


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small() -> tuple[Model, statistics.Loss]:
    """Return a smooth model with layers of 12, 20 and 15 weights, and its loss on 40 samples of three classes."""
    torch.manual_seed(4)
    model = Model(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)))
    x, y = torch.randn(40, 2, generator=generator(1)), torch.randint(0, 3, (40,), generator=generator(2))
    return model, lambda w: cross_entropy(model(w, x).output, y)


def lines() -> tuple[Model, Tensor]:
    """Return a model with two layers of two weights each, and the weights (1, 2) and (3, 4)."""
    model = Model(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))
    return model, torch.tensor([1.0, 2.0, 3.0, 4.0])


def test_federation_sensitivity_by_hand() -> None:
    model, w = lines()
    # Gradient (1, -1, 2, 0): (w g)^2 = (1, 4, 36, 0), means 2.5 and 18, summed up 2.5 and 20.5.
    loss = lambda w: (w * torch.tensor([1.0, -1.0, 2.0, 0.0])).sum()  # noqa: E731
    assert statistics.sensitivity(model, loss, w).tolist() == [2.5, 20.5]
    # Gradient entries (1, -1) and (2, 0) have mean 0 and 1, variance 1 and 1 (dividing by n, not n - 1).
    assert statistics.gradient_variance(model, loss, w).tolist() == [1.0, 1.0]


def test_only_trained_weights_count() -> None:
    module = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), nn.Linear(1, 1))
    module[0].bias.requires_grad_(False)
    model = Model(module)
    w = torch.full((model.size,), 2.0)
    # One trained weight, two (not the running statistics), two; every gradient entry is 3.
    loss = lambda w: 3 * w.sum()  # noqa: E731
    assert model.layers == ["0", "1", "2"]
    assert statistics.sensitivity(model, loss, w).tolist() == [36.0, 72.0, 108.0]
    assert statistics.gradient_variance(model, loss, w).tolist() == [0.0, 0.0, 0.0]
    found = statistics.hessian_trace(model, lambda w: 1.5 * (w**2).sum(), w, probes=2, key=0)
    assert found.value.tolist() == [3.0, 6.0, 6.0]


def test_hessian_trace_is_the_exact_one_within_its_error() -> None:
    model, loss = small()
    exact = model.layer_sums(hessian(loss, model.initial).diagonal())
    few, many = (statistics.hessian_trace(model, loss, model.initial, probes=n, key=5) for n in (40, 360))
    for found in (few, many):
        assert bool(((found.value - exact).abs() < 4 * found.error).all())
    # The error falls with the square root of the number of probes.
    torch.testing.assert_close(many.error, few.error / 3, rtol=0.35, atol=0)


def test_the_stated_error_is_the_spread_of_the_estimates() -> None:
    model, loss = small()
    found = [statistics.hessian_trace(model, loss, model.initial, probes=8, key=key) for key in range(40)]
    spread = torch.stack([each.value for each in found]).std(0)
    stated = torch.stack([each.error for each in found]).square().mean(0).sqrt()
    torch.testing.assert_close(stated, spread, rtol=0.4, atol=0)


def test_hessian_trace_is_exact_for_a_diagonal_hessian() -> None:
    model, w = lines()
    # Signs square to 1: every probe gives 2 (1 + 2) and 2 (3 + 4).
    found = statistics.hessian_trace(
        model, lambda w: (torch.tensor([1.0, 2.0, 3.0, 4.0]) * w**2).sum(), w, probes=3, key=1
    )
    assert found.value.tolist() == [6.0, 14.0]
    assert found.error.tolist() == [0.0, 0.0]


def test_one_probe_has_no_error_to_state() -> None:
    model, loss = small()
    with pytest.raises(SpecError, match="at least 2"):
        statistics.hessian_trace(model, loss, model.initial, probes=1, key=0)


def rotation(size: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, generator=generator(9)))[0]


@pytest.mark.parametrize(("measure", "alike"), [(statistics.linear_cka, 1.0), (statistics.angular_procrustes, 0.0)])
def test_similarities_are_invariant_to_shift_scale_and_rotation(measure: statistics.Similarity, alike: float) -> None:
    x = torch.randn(50, 6, generator=generator(3))
    for same in (x, 3 * x, x + 7, x @ rotation(6)):
        assert measure(x, same).item() == pytest.approx(alike, abs=1e-3)
    other = torch.randn(50, 4, generator=generator(8))
    assert abs(measure(x, other).item() - alike) > 0.2
    assert measure(x, other).item() == pytest.approx(measure(other, x).item())


def test_linear_cka_by_hand() -> None:
    # Centred already: X^T Y = (4, 2), its square sum 20; X^T X = 4, and ||Y^T Y||_F of ((4, 2), (2, 2)) = sqrt(28).
    x = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    y = torch.tensor([[1.0, 1.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, -1.0]])
    assert statistics.linear_cka(x, y).item() == pytest.approx(20 / (4 * math.sqrt(28)))


def test_angular_procrustes_by_hand() -> None:
    # One column each, with cosine 1/2 between them: 60 degrees.
    x = torch.tensor([[1.0], [-1.0], [0.0]])
    y = torch.tensor([[1.0], [0.0], [-1.0]])
    assert statistics.angular_procrustes(x, y).item() == pytest.approx(math.pi / 3)
    # Nothing in common: 90 degrees.
    assert statistics.angular_procrustes(x, torch.tensor([[1.0], [1.0], [-2.0]])).item() == pytest.approx(math.pi / 2)


def test_angular_procrustes_finds_the_best_shift_of_maps() -> None:
    maps = torch.randn(5, 3, 4, 6, generator=generator(6))
    moved = torch.roll(maps, (1, -2), dims=(2, 3))
    assert statistics.angular_procrustes(maps, moved).item() == pytest.approx(0, abs=1e-3)
    other = torch.randn(5, 2, 4, 6, generator=generator(7))

    def rows(x: Tensor) -> Tensor:
        return x.movedim(1, -1).flatten(0, 2)

    every = [
        statistics.angular_procrustes(rows(maps), rows(torch.roll(other, (up, right), dims=(2, 3)))).item()
        for up in range(4) for right in range(6)
    ]  # fmt: skip
    assert statistics.angular_procrustes(maps, other).item() == pytest.approx(min(every))


def test_layer_outputs_are_those_of_the_modules_with_weights() -> None:
    model, _ = small()
    x = torch.randn(7, 2, generator=generator(1))
    first, second, third = statistics.layer_outputs(model, model.initial, x)
    weights = model.split(model.initial)
    torch.testing.assert_close(first, x @ weights["0.weight"].T + weights["0.bias"])
    torch.testing.assert_close(second, first.tanh() @ weights["2.weight"].T + weights["2.bias"])
    torch.testing.assert_close(third, model(model.initial, x).output)
    # All forward hooks are removed.
    assert not model.module[0]._forward_hooks


def test_similarities_of_clients() -> None:
    model, _ = small()
    x = torch.randn(30, 2, generator=generator(1))
    head = torch.arange(model.size) >= model.size - 15
    changed = model.initial + head * torch.randn(model.size, generator=generator(2))
    found = statistics.similarities(model, [model.initial, changed], x)
    assert found.shape == (3, 2, 2)
    torch.testing.assert_close(found[:2], torch.ones(2, 2, 2))
    assert found[2, 0, 0].item() == pytest.approx(1)
    assert found[2, 0, 1].item() == pytest.approx(found[2, 1, 0].item())
    assert found[2, 0, 1].item() < 0.99


def test_a_layer_that_is_not_called_is_named() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(2, 2), nn.Linear(2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(nn.functional.linear(x, self.inner.weight, self.inner.bias))

    model = Model(Hidden())
    with pytest.raises(SpecError, match="layer inner is not called"):
        statistics.layer_outputs(model, model.initial, torch.zeros(3, 2))
