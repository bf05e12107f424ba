"""Self-attention (Vaswani et al., 2017, equation 1), with a kernel of its own for heads two numbers wide.

So narrow a head is a handful of numbers for every pair of features, and torch's operations spend their time on
writing these and reading them again. Samples are the last axis everywhere.
"""

from __future__ import annotations

import math
from ctypes import c_long, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp

from bench.native import kernels

WIDTH, FEATURES = 2, 512  # of a head; so many features the kernel has room for

_operations = torch.library.Library("silobench", "FRAGMENT")
_operations.define("attention(Tensor x) -> Tensor")
_operations.define("attention_gradient(Tensor x, Tensor dy) -> Tensor")


def attention(x: Tensor) -> Tensor:
    """Queries, keys and values (3, h, w, d, n) of h heads and d features -> what every feature gets (h, w, d, n)."""
    _, _, width, features, _ = x.shape
    fits = width == WIDTH and features <= FEATURES and x.dtype == torch.float32 and x.device.type == "cpu"
    return _Attention.apply(x) if fits and _kernels() is not None else by_definition(x)


def by_definition(x: Tensor) -> Tensor:
    """:func:`attention` as it is written, softmax(Q K^T / sqrt(w)) V for every head and sample (and run)."""
    query, key, value = x.unbind(-5)
    score = torch.einsum("...win,...wjn->...ijn", query / math.sqrt(x.shape[-3]), key)
    return torch.einsum("...ijn,...wjn->...win", score.softmax(-2), value)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.ops.silobench.attention(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return _Gradient.apply(*ctx.saved_tensors, dy)

    @staticmethod
    def vmap(info: Any, places: tuple[int], x: Tensor) -> tuple[Tensor, int]:
        return _Attention.apply(x.movedim(places[0], 0)), 0


class _Gradient(torch.autograd.Function):
    """The gradient, whose own gradient is that of the definition."""

    @staticmethod
    def forward(x: Tensor, dy: Tensor) -> Tensor:
        return torch.ops.silobench.attention_gradient(x, dy)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ddx: Tensor) -> tuple[Tensor, ...]:
        return vjp(lambda x, dy: vjp(by_definition, x)[1](dy)[0], *ctx.saved_tensors)[1](ddx)

    @staticmethod
    def vmap(info: Any, places: tuple[int | None, int | None], x: Tensor, dy: Tensor) -> tuple[Tensor, int]:
        x, dy = (
            each.expand(info.batch_size, *each.shape) if place is None else each.movedim(place, 0)
            for each, place in zip((x, dy), places, strict=True)
        )
        return _Gradient.apply(x, dy), 0


def _kernels() -> Any:
    return kernels(Path(__file__).with_suffix(".c"))


def _forward(x: Tensor) -> Tensor:
    x = x.contiguous()
    y = x.new_empty(*x.shape[:-5], *x.shape[-4:])
    _kernels().attention(*_pointers(x, y), *_sizes(x))
    return y


def _gradient(x: Tensor, dy: Tensor) -> Tensor:
    x, dy = x.contiguous(), dy.contiguous()
    dx = torch.empty_like(x)
    _kernels().attention_gradient(*_pointers(x, dy, dx), *_sizes(x))
    return dx


def _pointers(*tensors: Tensor) -> list[c_void_p]:
    return [c_void_p(each.data_ptr()) for each in tensors]


def _sizes(x: Tensor) -> list[c_long]:
    """Runs, heads, features, samples."""
    *runs, _, heads, _, features, samples = x.shape
    return [c_long(size) for size in (math.prod(runs), heads, features, samples)]


_operations.impl("attention", _forward, "CPU")
_operations.impl("attention_gradient", _gradient, "CPU")
