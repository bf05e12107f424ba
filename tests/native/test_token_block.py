"""The kernel of Global Layers' blocks against their definition: forth, back and twice back."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from bench.native import token_block as module
from bench.native.kernel import without_kernels
from bench.native.token_block import Weights, attention, by_definition, token_block

SHAPES = Weights((), (), (48, 16), (16, 16), (), (), (8, 16), (16, 8), (8, 16))


def inputs(features: int, samples: int, *runs: int, gate: bool = True) -> list[Tensor]:
    """x and the weights of a block, with axes of several runs first."""
    torch.manual_seed(features * 1000 + samples)
    weights = [torch.randn(*runs, *(shape or (features,))) / 2 for shape in (SHAPES if gate else SHAPES[:-1])]
    return [torch.randn(*runs, 16, features, samples), *weights]


def kernel(x: Tensor, *weights: Tensor) -> Tensor:
    return token_block(x, Weights(*weights))


def weighed(block, arguments: list[Tensor]) -> Tensor:
    """A number that all of the output has a part in."""
    y = block(*arguments)
    return (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()


def gradients(block, arguments: list[Tensor]) -> list[Tensor]:
    return grad(weighed, argnums=1)(block, arguments)


def assert_as_good(found: list[Tensor], arguments: list[Tensor]) -> None:
    """The kernel's gradients are as close to those of double precision as single precision is."""
    exact = gradients(by_definition, [each.double() for each in arguments])
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours - theirs).abs().max() <= 2e-5 * theirs.abs().max()


def test_the_kernel_is_there() -> None:
    """Otherwise the tests below would compare the definition with itself."""
    assert module.KERNEL.functions is not None


def test_attention_by_hand() -> None:
    """Two features, one sample: scores 0 and ln 3 are shares of 1/4 and 3/4, no scores are a half each."""
    x = torch.zeros(3, 8, 2, 2, 1)  # queries, keys, values; heads; numbers of a head; features; samples
    x[0, 0, 0, 0] = 1  # the first feature asks
    x[1, 0, 0, 1] = math.sqrt(2) * math.log(3)  # the second one answers
    x[2, 0, :, :, 0] = torch.tensor([[4.0, 12.0], [8.0, 16.0]])
    x[2, 5, 1, :, 0] = torch.tensor([1.0, 2.0])
    mixed = attention(x.flatten(0, 2)).unflatten(0, (8, 2))[..., 0]
    torch.testing.assert_close(mixed[0], torch.tensor([[10.0, 8.0], [14.0, 12.0]]))
    torch.testing.assert_close(mixed[5], torch.tensor([[0.0, 0.0], [1.5, 1.5]]))


# A vector holds 8 or 16 samples, eight vectors are a tile: parts of vectors and of tiles, one and several.
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("samples", [1, 7, 16, 17, 128, 130, 300])
@pytest.mark.parametrize("features", [1, 2, 11])
def test_is_the_definition(features: int, samples: int, gate: bool) -> None:
    arguments = inputs(features, samples, gate=gate)
    torch.testing.assert_close(kernel(*arguments), by_definition(*arguments), rtol=1e-4, atol=1e-4)
    assert_as_good(gradients(kernel, arguments), arguments)


def test_as_many_features_as_there_is_room_for() -> None:
    arguments = inputs(module.FEATURES, 20)
    assert_as_good(gradients(kernel, arguments), arguments)
    more = inputs(module.FEATURES + 1, 3)
    assert torch.equal(kernel(*more), by_definition(*more))


@pytest.mark.parametrize("scale", [1e-3, 5.0])
def test_scores_of_any_size(scale: float) -> None:
    arguments = inputs(5, 20)
    arguments[3] = arguments[3] * scale
    torch.testing.assert_close(kernel(*arguments), by_definition(*arguments), rtol=1e-3, atol=1e-3)


def test_runs_are_stacked() -> None:
    arguments = inputs(3, 20, 2, 5)
    one = [each[1, 3] for each in arguments]
    assert torch.equal(vmap(vmap(kernel))(*arguments)[1, 3], kernel(*one))
    back = vmap(vmap(lambda *each: gradients(kernel, list(each))))(*arguments)
    for ours, theirs in zip(back, gradients(kernel, one), strict=True):
        assert torch.equal(ours[1, 3], theirs)


def test_runs_may_share_their_samples() -> None:
    x, *weights = inputs(3, 20, 4)
    found = vmap(lambda *weights: gradients(kernel, [x[0], *weights]))(*weights)
    expected = gradients(kernel, [x[0], *(each[2] for each in weights)])
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours[2], theirs)


def test_the_second_derivative_is_the_definitions() -> None:
    arguments = inputs(3, 9, 2)

    def bent(block, *arguments: Tensor) -> Tensor:
        return torch.stack([each.square().sum() for each in gradients(block, list(arguments))]).sum()

    ours, theirs = (
        vmap(lambda *each, block=block: grad(bent, argnums=tuple(range(1, 11)))(block, *each))(*arguments)
        for block in (kernel, by_definition)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * b.abs().max().item())


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_what_is_not_a_number_is_not_hidden(poison: float) -> None:
    x, *weights = inputs(3, 20)
    x[3, 1, 5] = poison
    lost = kernel(x, *weights).isfinite().logical_not()
    assert lost[:, :, 5].all()
    assert lost.sum() == 16 * 3
    _, *dweights = gradients(kernel, [x, *weights])
    assert all(not each.isfinite().all() for each in dweights)


def test_other_kinds_of_numbers_are_computed_by_definition() -> None:
    arguments = [each.double() for each in inputs(3, 20)]
    assert torch.equal(kernel(*arguments), by_definition(*arguments))
    with without_kernels():
        arguments = inputs(3, 20)
        assert torch.equal(kernel(*arguments), by_definition(*arguments))
