"""AdamW's update of all weights in one pass over memory, compiled from ``adamw.c``."""

from __future__ import annotations

from ctypes import c_float, c_long, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap

from bench.native.kernel import Kernel, operation

KERNEL = Kernel(Path(__file__).with_suffix(".c"))

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


_ARGUMENTS = "Tensor{} w, Tensor[] parts, Tensor{} m, Tensor{} v, Tensor keep, Tensor scale, Tensor epsilon"


@operation(f"adamw({_ARGUMENTS.format('', '', '')}) -> (Tensor, Tensor, Tensor)")
def _update(w: Tensor, parts: list[Tensor], m: Tensor, v: Tensor, *numbers: Tensor) -> Updated:
    """Return updated copies; the gradient is the concatenation of ``parts``, which a trace passes without joining."""
    w, m, v = (each.clone(memory_format=torch.contiguous_format) for each in (w, m, v))
    _update_in_place(w, parts, m, v, *numbers)
    return w, m, v


@operation(f"adamw_({_ARGUMENTS.format('(a!)', '(b!)', '(c!)')}) -> ()")
def _update_in_place(w: Tensor, parts: list[Tensor], m: Tensor, v: Tensor, *numbers: Tensor) -> None:
    """Overwrite weights and moments; a trace uses it where nothing reads the old values again."""
    parts = [part.contiguous() for part in parts]
    gradient = (c_void_p * len(parts))(*(part.data_ptr() for part in parts))
    sizes = (c_long * len(parts))(*(part.numel() for part in parts))
    moments = (c_void_p(each.data_ptr()) for each in (m, v))
    scalars = (c_float(each.item()) for each in numbers)
    KERNEL.functions.adamw(c_void_p(w.data_ptr()), gradient, sizes, c_long(len(parts)), *moments, *scalars)
