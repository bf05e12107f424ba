"""The kernel for narrow heads against the definition of attention, forth, back and twice back."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from bench.models import attention as module
from bench.models.attention import attention, by_definition
from bench.native import standing_back

CLOSE = {"rtol": 1e-5, "atol": 2e-6}


def heads(features: int, samples: int, *runs: int, scale: float = 1.0) -> Tensor:
    torch.manual_seed(features * 1000 + samples)
    return scale * torch.randn(*runs, 3, 4, 2, features, samples)


def weighed(attend, x: Tensor) -> Tensor:
    """A number that all of the attention has a part in."""
    y = attend(x)
    return (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum()


def test_the_kernel_is_there() -> None:
    """Else what follows would hold the definition against itself."""
    assert module._kernels() is not None


def test_by_hand() -> None:
    """Two features, one sample, one head: scores 0 and ln 3 are shares of 1/4 and 3/4."""
    query, key, value = [[1.0, 0], [0, 0]], [[0.0, 0], [math.sqrt(2) * math.log(3), 0]], [[4.0, 8], [12, 16]]
    x = torch.tensor([query, key, value]).transpose(1, 2)[:, None, :, :, None]  # (3, 1 head, 2, 2 features, 1 sample)
    # The first feature takes them 1:3, the second, whose query is nothing, both alike.
    torch.testing.assert_close(attention(x)[0, :, :, 0].T, torch.tensor([[10.0, 14.0], [8.0, 12.0]]))


# A vector holds 8 or 16 samples, eight vectors are a tile: parts of vectors and of tiles, one and several.
@pytest.mark.parametrize("samples", [1, 7, 16, 17, 128, 130, 300])
@pytest.mark.parametrize("features", [1, 2, 11])
def test_is_the_definition(features: int, samples: int) -> None:
    x = heads(features, samples)
    torch.testing.assert_close(attention(x), by_definition(x), **CLOSE)
    ours, theirs = (grad(weighed, argnums=1)(attend, x) for attend in (attention, by_definition))
    torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("scale", [1e-3, 10, 30])
def test_scores_of_any_size(scale: float) -> None:
    x = heads(5, 20, scale=scale)
    torch.testing.assert_close(attention(x), by_definition(x), rtol=1e-4, atol=1e-4 * scale)


def test_runs_are_stacked() -> None:
    x = heads(3, 20, 2, 5)
    stacked = vmap(vmap(attention))(x)
    assert torch.equal(stacked, torch.stack([torch.stack([attention(each) for each in row]) for row in x]))
    back = vmap(vmap(lambda each: grad(weighed, argnums=1)(attention, each)))(x)
    assert torch.equal(back[1, 3], grad(weighed, argnums=1)(attention, x[1, 3]))


def test_what_one_run_has_and_what_all_share() -> None:
    x, y = heads(3, 20), torch.randn(6, 4, 2, 3, 20)
    back = vmap(lambda y: grad(lambda x: (attention(x) * y).sum())(x))(y)
    assert torch.equal(back[4], grad(lambda x: (attention(x) * y[4]).sum())(x))


def test_the_second_derivative_is_the_definitions() -> None:
    x = heads(3, 9, 2)

    def bent(attend, x: Tensor) -> Tensor:
        return grad(weighed, argnums=1)(attend, x).square().sum()

    ours, theirs = (vmap(lambda x, f=f: grad(bent, argnums=1)(f, x))(x) for f in (attention, by_definition))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_is_not_a_number_is_not_hidden() -> None:
    x = heads(3, 20)
    x[1, 2, 0, 1, 5] = math.nan
    lost = attention(x).isnan()
    assert lost[2, :, :, 5].all()
    assert lost.sum() == 6


@pytest.mark.parametrize("kind", ["float64", "wide heads", "no kernels"])
def test_the_definition_stands_in(kind: str) -> None:
    x = heads(3, 20)
    if kind == "float64":
        assert attention(x.double()).dtype == torch.float64
    elif kind == "wide heads":
        wide = x.reshape(3, 2, 4, 3, 20)
        assert torch.equal(attention(wide), by_definition(wide))
    else:
        with standing_back():
            assert torch.equal(attention(x), by_definition(x))
