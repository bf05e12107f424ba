"""A block of Global Layers' transformer: attention among a sample's features, then a gated feedforward layer.

Its arrays are many and small: a head is two numbers wide, a feature sixteen. Torch's operations spend most of their
time writing these and reading them again, so the whole block is a C kernel (``token_block.c``). Samples are the last
axis.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vjp
from torch.nn.functional import selu

from bench.native.kernel import Comparison, Kernel, operation

WIDTH, HEADS, HIDDEN = 16, 8, 8  # Table 10
EPSILON = 1e-5  # of batch-norm
FEATURES = 48  # the most that the kernel supports


class Weights(NamedTuple):
    """Weights of a block over d features with affine norms: a scale and a shift for each feature."""

    scale: Tensor  # (d,)
    shift: Tensor
    project: Tensor  # (48, 16): queries, keys and values of all heads
    out: Tensor  # (16, 16)
    inner_scale: Tensor  # (d,)
    inner_shift: Tensor
    narrow: Tensor  # (8, 16)
    widen: Tensor  # (16, 8)
    gate: Tensor | None = None  # (8, 16)


def token_block(x: Tensor, weights: Weights) -> Tensor:
    """Return the block's output, x (16, d, n) -> (16, d, n); see :func:`by_definition`."""
    arguments = [x, *(weight for weight in weights if weight is not None)]
    fits = x.shape[-2] <= FEATURES and KERNEL.serves(*arguments)
    return _Block.apply(*arguments) if fits else by_definition(*arguments)


def by_definition(x: Tensor, *weights: Tensor) -> Tensor:
    """Return r + selu(W (selu(N norm'(r)) * G r)) with u = norm(x) and r = u + O attention(P u).

    x is (..., 16, d, n); leading axes are of several runs.
    """
    w = Weights(*weights)
    x = _affine(x, w.scale, w.shift)
    x = x + _product(w.out, attention(_product(w.project, x)))
    hidden = selu(_product(w.narrow, _affine(x, w.inner_scale, w.inner_shift)))
    return x + selu(_product(w.widen, hidden if w.gate is None else hidden * _product(w.gate, x)))


def _affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Apply batch-norm (over the last axis but one) in evaluation mode, never trained: mean 0 and variance 1."""
    return x * (scale / math.sqrt(1 + EPSILON))[..., None, :, None] + shift[..., None, :, None]


def attention(projected: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(2)) V (Vaswani et al., 2017, equation 1) for every head: (48, d, n) -> (16, d, n)."""
    width = WIDTH // HEADS
    query, key, value = projected.unflatten(-3, (3, HEADS, width)).unbind(-5)
    score = torch.einsum("...win,...wjn->...ijn", query / math.sqrt(width), key)
    return torch.einsum("...ijn,...wjn->...win", score.softmax(-2), value).flatten(-4, -3)


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    return torch.einsum("...oc,...cin->...oin", matrix, x)


# Kernel --------------------------------------------------------------------------------------------------------


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(*arguments: Tensor) -> Tensor:
        return _forward(arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        return _Gradient.apply(*ctx.saved_tensors, dy)

    @staticmethod
    def vmap(info: Any, places: tuple[int | None, ...], *arguments: Tensor) -> tuple[Tensor, int]:
        return _Block.apply(*_first(info.batch_size, places, arguments)), 0


class _Gradient(torch.autograd.Function):
    """Gradients of x and all weights; their own gradients are those of the definition."""

    @staticmethod
    def forward(*arguments: Tensor) -> tuple[Tensor, ...]:
        *given, dy = arguments
        return tuple(_gradient(given, dy))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *d: Tensor) -> tuple[Tensor, ...]:
        return vjp(lambda *saved: vjp(by_definition, *saved[:-1])[1](saved[-1]), *ctx.saved_tensors)[1](d)

    @staticmethod
    def vmap(
        info: Any, places: tuple[int | None, ...], *arguments: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _Gradient.apply(*_first(info.batch_size, places, arguments)), (0,) * (len(arguments) - 1)


def _first(runs: int, places: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """Yield the tensors with the mapped axis first, including those that all runs share."""
    for place, each in zip(places, tensors, strict=True):
        yield each.expand(runs, *each.shape) if place is None else each.movedim(place, 0)


@operation("token_block(Tensor[] arguments) -> Tensor")
def _forward(arguments: list[Tensor]) -> Tensor:
    return _output(KERNEL.functions, *arguments)


@operation("token_block_gradient(Tensor[] arguments, Tensor dy) -> Tensor[]")
def _gradient(arguments: list[Tensor], dy: Tensor) -> list[Tensor]:
    return _gradients(KERNEL.functions, dy, *arguments)


def _output(functions: Any, *arguments: Tensor) -> Tensor:
    x, *weights = (each.contiguous() for each in arguments)
    y = torch.empty_like(x)
    for run in range(x[..., 0, 0, 0].numel()):
        functions.token_block(_at(x, 3, run), _all_at(weights, run), _at(y, 3, run), *_sizes(x))
    return y


def _gradients(functions: Any, *arguments: Tensor) -> list[Tensor]:
    dy, x, *weights = (each.contiguous() for each in arguments)
    dx, *dweights = (torch.empty_like(each) for each in (x, *weights))
    for run in range(x[..., 0, 0, 0].numel()):
        functions.token_block_gradient(
            _at(x, 3, run), _all_at(weights, run), _at(dy, 3, run), _at(dx, 3, run), _all_at(dweights, run), *_sizes(x)
        )
    return [dx, *dweights]


def _at(tensor: Tensor, axes: int, run: int) -> ctypes.c_void_p:
    """Return the address of the numbers of one run, whose own axes are the last."""
    own = math.prod(tensor.shape[-axes:])
    return ctypes.c_void_p(tensor.data_ptr() + run * own * tensor.element_size())


def _all_at(weights: list[Tensor], run: int) -> ctypes.Array[ctypes.c_void_p]:
    """Return the weights of one run as the kernel's structure of pointers; the gate's is NULL without a gate."""
    axes = (1, 1, 2, 2, 1, 1, 2, 2, 2)
    places = [_at(weight, own, run) for weight, own in zip(weights, axes, strict=False)]
    return (ctypes.c_void_p * len(axes))(*places)


def _sizes(x: Tensor) -> list[ctypes.c_long]:
    """Return the numbers of features and samples."""
    return [ctypes.c_long(size) for size in x.shape[-2:]]


def _compare(functions: Any) -> Iterator[Comparison]:
    """Compare output and gradients of 131 samples with 3 features: a tile, part of the next one and part of a vector.

    Errors are at most 3e-6 of a sample's largest output, or of a weight's largest gradient, with options of gcc that
    keep the order of operations. The allowed 2e-5 is 300 roundings, nearly as many as the longest sum has. Options that
    change the order ("-ffast-math") make errors of more than 1e-2. The first sample has scores above 1,000, whose
    powers overflow unless the largest is subtracted. At last, NaN in one weight must reach the output, because
    diverged training must be recognised.
    """
    generator = torch.Generator().manual_seed(1)
    shapes = [(16, 3, 131), (16, 3, 131), (3,), (3,), (48, 16), (16, 16), (3,), (3,), (8, 16), (16, 8), (8, 16)]
    dy, x, *weights = (torch.randn(*shape, generator=generator) / 2 for shape in shapes)
    x[..., 0] *= 100
    dy[..., 0] = 0  # the other samples' gradients would be small next to this one's
    doubles = [each.double().requires_grad_() for each in (x, *weights)]
    y = by_definition(*doubles)
    dx, *dweights = torch.autograd.grad((y * dy).sum(), doubles)
    found = [_output(functions, x, *weights), *_gradients(functions, dy, x, *weights)]
    for ours, theirs in zip(found, [y.detach(), dx, *dweights], strict=True):
        size = theirs.abs().amax((0, 1), keepdim=True) if theirs.dim() == 3 else theirs.abs().max()
        yield Comparison(ours, theirs, 2e-5 * size)
    weights[2][0, 0] = torch.nan
    yield Comparison(_output(functions, x, *weights), torch.full_like(x, torch.nan), torch.tensor(0))


KERNEL = Kernel(Path(__file__).with_suffix(".c"), _compare)
