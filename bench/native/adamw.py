"""AdamW's update of all weights in one pass over memory, compiled from ``adamw.c``."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float, c_long, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap

from bench.native.kernel import Comparison, Kernel, operation

Updated = tuple[Tensor, Tensor, Tensor]  # w, m, v


def update(w: Tensor, gradient: Tensor, m: Tensor, v: Tensor, keep: Tensor, scale: Tensor, epsilon: Tensor) -> Updated:
    """Return weights and moments (d,) after w <- keep w - scale m / (sqrt(v) + epsilon), with betas 0.9 and 0.999.

    Without a compiler, or with a weight decay that differs between weights, it is computed by tensor operations.
    """
    arguments = (w, gradient, m, v, keep, scale, epsilon)
    return _Update.apply(*arguments) if keep.dim() == 0 and KERNEL.serves(w) else by_definition(*arguments)


def by_definition(
    w: Tensor, gradient: Tensor, m: Tensor, v: Tensor, keep: Tensor, scale: Tensor, epsilon: Tensor
) -> Updated:
    """Return the same as :func:`update`, by tensor operations: the definition of the kernel."""
    m = torch.lerp(m, gradient, 0.1)
    v = torch.addcmul(0.999 * v, gradient, gradient, value=0.001)
    return torch.addcdiv(w * keep, scale * m, torch.sqrt(v) + epsilon, value=-1), m, v


class _Update(torch.autograd.Function):
    """The kernel for one run; vmap and derivatives use the definition."""

    @staticmethod
    def forward(*arguments: Tensor) -> Updated:
        w, gradient, *others = arguments
        return _update(w, [gradient], *others)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Updated) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *d: Tensor) -> tuple[Tensor, ...]:
        return vjp(by_definition, *ctx.saved_tensors)[1](d)

    @staticmethod
    def vmap(info: Any, places: tuple[int | None, ...], *arguments: Tensor) -> tuple[Updated, tuple[int, ...]]:
        return vmap(by_definition, in_dims=places)(*arguments), (0, 0, 0)


_ARGUMENTS = "Tensor{} w, Tensor[] gradient, Tensor{} m, Tensor{} v, Tensor keep, Tensor scale, Tensor epsilon"


@operation(f"adamw({_ARGUMENTS.format('', '', '')}) -> (Tensor, Tensor, Tensor)", concatenates="gradient")
def _update(w: Tensor, gradient: list[Tensor], m: Tensor, v: Tensor, *numbers: Tensor) -> Updated:
    """Return updated copies; the gradient may be in several parts, one after the other."""
    w, m, v = (each.clone(memory_format=torch.contiguous_format) for each in (w, m, v))
    _update_in_place(w, gradient, m, v, *numbers)
    return w, m, v


@operation(f"adamw_({_ARGUMENTS.format('(a!)', '(b!)', '(c!)')}) -> ()")
def _update_in_place(w: Tensor, gradient: list[Tensor], m: Tensor, v: Tensor, *numbers: Tensor) -> None:
    """Overwrite weights and moments; a trace uses it where nothing reads the old values again."""
    _call(KERNEL.functions, w, gradient, m, v, *numbers)


def _call(functions: Any, w: Tensor, gradient: list[Tensor], m: Tensor, v: Tensor, *numbers: Tensor) -> None:
    parts = [part.contiguous() for part in gradient]
    addresses = (c_void_p * len(parts))(*(part.data_ptr() for part in parts))
    sizes = (c_long * len(parts))(*(part.numel() for part in parts))
    moments = (c_void_p(each.data_ptr()) for each in (m, v))
    scalars = (c_float(each.item()) for each in numbers)
    functions.adamw(c_void_p(w.data_ptr()), addresses, sizes, c_long(len(parts)), *moments, *scalars)


def _compare(functions: Any) -> Iterator[Comparison]:
    """Compare updates of 101 weights in three parts, some of them never trained and one with a gradient of NaN.

    A result is a sum of at most three terms. Each of its about ten operations rounds by 6e-8 of the terms, whatever
    the order and the instructions that a compiler chooses. An error above 1e-6 of the terms is a wrong number.
    """
    generator = torch.Generator().manual_seed(1)
    w, gradient, m, v = torch.randn(4, 101, generator=generator) * torch.logspace(-8, 2, 101)
    numbers = [torch.tensor(number) for number in (0.999, 0.01, 1e-8)]
    gradient[10:20] = m[10:20] = v[10:20] = 0
    gradient[-1] = torch.nan
    arguments = [w, gradient, m, v.abs(), *numbers]
    keep, scale, epsilon = numbers
    terms = by_definition(w.abs(), gradient.abs(), m.abs(), v.abs(), keep, -scale, epsilon)
    exact = by_definition(*(each.double() for each in arguments))
    found = [each.clone() for each in (w, m, v.abs())]
    _call(functions, found[0], list(gradient.split([1, 64, 36])), *found[1:], *numbers)
    for ours, theirs, size in zip(found, exact, terms, strict=True):
        yield Comparison(ours, theirs, 1e-6 * size)


KERNEL = Kernel(Path(__file__).with_suffix(".c"), _compare)
