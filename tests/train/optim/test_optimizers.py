"""The optimisers equal ``torch.optim`` in every step, also when the learning rate is a tensor of the run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from bench.native.kernel import without_kernels
from bench.train.optim.optimizers import SGD, AdamW

STEPS = 50
CASES = {
    "adamw": (AdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.01}),
    "adamw with strong decay": (AdamW, torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.5}),
    "sgd": (SGD, torch.optim.SGD, {"lr": 0.1}),
    "sgd with momentum": (SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd with decay": (SGD, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.3}),
    "sgd with both": (SGD, torch.optim.SGD, {"lr": 0.02, "momentum": 0.5, "weight_decay": 0.3}),
}


def gradients(w: Tensor, step: int) -> Tensor:
    """Gradients that change in sign and in size over seven orders of magnitude, and depend on the weights."""
    scale = torch.logspace(-6, 1, len(w))
    return scale * (torch.sin(torch.arange(len(w)) + 0.7 * step) + 0.1 * w)


def torch_path(kind: type[torch.optim.Optimizer], numbers: dict[str, float]) -> list[Tensor]:
    w = torch.linspace(-2, 2, 8).requires_grad_()
    optimizer = kind([w], **numbers)
    path = []
    for step in range(STEPS):
        w.grad = gradients(w.detach(), step)
        optimizer.step()
        path.append(w.detach().clone())
    return path


@pytest.mark.parametrize("case", CASES)
def test_equals_torch_step_by_step(case: str) -> None:
    ours, theirs, numbers = CASES[case]
    optimizer, w = ours(**numbers), torch.linspace(-2, 2, 8)
    state = optimizer.init(w)
    for step, expected in enumerate(torch_path(theirs, numbers)):
        w, state = optimizer.step(w, gradients(w, step), state)
        torch.testing.assert_close(w, expected, rtol=1e-6, atol=1e-6)


def test_a_step_has_a_gradient() -> None:
    w, state = torch.randn(5), {"m": torch.randn(5), "v": torch.rand(5), "t": torch.tensor(3.0)}

    def after(w: Tensor) -> Tensor:
        return AdamW(lr=0.1, weight_decay=0.3).step(w, w**2, state)[0].sum()

    with without_kernels():
        expected = grad(after)(w)
    torch.testing.assert_close(grad(after)(w), expected)


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_several_runs_stack(case: str) -> None:
    ours, theirs, numbers = CASES[case]
    factors = (1.0, 0.1, 0.03)
    runs = {name: torch.tensor([value * factor for factor in factors]) for name, value in numbers.items()}
    w = torch.linspace(-2, 2, 8).expand(3, 8)
    state = vmap(lambda run, w: ours(**run).init(w))(runs, w)
    paths = [torch_path(theirs, {name: value * factor for name, value in numbers.items()}) for factor in factors]
    for step in range(STEPS):
        g = vmap(lambda w, step=step: gradients(w, step))(w)
        w, state = vmap(lambda run, w, g, state: ours(**run).step(w, g, state))(runs, w, g, state)
        torch.testing.assert_close(w, torch.stack([path[step] for path in paths]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "numbers"), [(AdamW, {"weight_decay": 0.5}), (SGD, {"weight_decay": 0.5})])
def test_weight_decay_leaves_untrained_weights_alone(kind: type[AdamW] | type[SGD], numbers: dict[str, float]) -> None:
    optimizer = kind(lr=0.1, decays=torch.tensor([1.0, 0.0]), **numbers)
    w = torch.tensor([2.0, 2.0])
    state = optimizer.init(w)
    for _ in range(3):
        w, state = optimizer.step(w, torch.zeros(2), state)
    # 2 (1 - 0.1 * 0.5)^3
    torch.testing.assert_close(w, torch.tensor([1.71475, 2.0]))
