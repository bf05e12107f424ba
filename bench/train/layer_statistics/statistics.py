"""What PLayer-FL looks at in a model, layer by layer (Elhussein & Gürsoy, 2025, equations 2 and A.1 to A.3).

A layer is a module that holds weights, in the order of ``Model.layers``; only its trained weights count. A ``loss`` is
a function of the weights w (d,) alone, such as ``lambda w: criterion(model(w, x).output, y).mean()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import grad, vjp

from bench.algorithms import player_fl
from bench.models.functional import Model
from bench.rng import bits
from bench.types import SpecError

Loss = Callable[[Tensor], Tensor]
Similarity = Callable[[Tensor, Tensor], Tensor]


class TraceEstimate(NamedTuple):
    """Estimates (L,) and their standard errors (L,)."""

    value: Tensor
    error: Tensor


def gradient(model: Model, loss: Loss, w: Tensor) -> Tensor:
    """The gradient (d,) at ``w``, zero where a weight is not trained."""
    return grad(loss)(w) * _trained(model)


def federation_sensitivity(model: Model, loss: Loss, w: Tensor) -> Tensor:
    """F_l (L,) of equation 2: (w_p g_p)^2, averaged over each layer, summed over a layer and all before it."""
    return player_fl.federation_sensitivity(model, w, gradient(model, loss, w))


def gradient_variance(model: Model, loss: Loss, w: Tensor) -> Tensor:
    """1/n_l sum_p (g_p - mean g)^2 (L,) over the gradient's entries in each layer (equation A.1)."""
    g, n = gradient(model, loss, w), player_fl.trained_weights(model).clamp(min=1)
    centred = (g - model.by_layer(model.layer_sums(g) / n)) * _trained(model)
    return model.layer_sums(centred**2) / n


def hessian_trace(model: Model, loss: Loss, w: Tensor, *, probes: int, key: int) -> TraceEstimate:
    """The trace (L,) of the loss's Hessian within each layer, the sum of its eigenvalues (equation A.2).

    Hutchinson's estimate: the mean over ``probes`` vectors v of random signs, drawn by ``key``, of v (H v) summed over
    each layer; its standard error is the probes' standard deviation over sqrt(probes). The paper divides by n_l, which
    is :func:`bench.algorithms.player_fl.trained_weights`.
    """
    if probes < 2:
        raise SpecError(f"hessian_trace: probes = {probes}: a standard error needs at least 2")
    hessian_times = vjp(grad(loss), w)[1]  # v^T H, which is (H v)^T
    samples = []
    for probe in range(probes):
        heads = bits(torch.tensor(key), torch.arange(probe * model.size, (probe + 1) * model.size)) >= 0
        v = torch.where(heads, 1.0, -1.0) * _trained(model)
        samples.append(model.layer_sums(v * hessian_times(v)[0]))
    drawn = torch.stack(samples)
    return TraceEstimate(drawn.mean(0), drawn.std(0) / probes**0.5)


def linear_cka(x: Tensor, y: Tensor) -> Tensor:
    """||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) of representations (n, ...) of the same n samples, columns centred.

    1 for equal representations up to rotation and scale. Equation A.3 prints the norms below the line squared; then a
    representation would not be similar to itself (Kornblith et al., 2019, have it as here).
    """
    x, y = (_centred(each.flatten(1)) for each in (x, y))
    return (y.T @ x).square().sum() / (torch.linalg.norm(x.T @ x) * torch.linalg.norm(y.T @ y))


def angular_procrustes(x: Tensor, y: Tensor) -> Tensor:
    """arccos(||X^T Y||_* / (||X||_F ||Y||_F)), from 0 to pi / 2, columns centred: a distance, free of rotations.

    This is what PLayer-FL's code plots under the name of CKA. Of feature maps (n, channels, height, width) every place
    is a row, and the distance is the least over all circular shifts of one against the other.
    """
    if x.dim() < 4:
        x, y = (each.flatten(1)[..., None, None] for each in (x, y))
    x, y = (each.to(torch.float64) for each in (x, y))
    x, y = (each - each.mean((0, 2, 3), keepdim=True) for each in (x, y))
    # X^T Y for all shifts at once, as a cross-correlation over the two axes of space.
    spectrum = torch.einsum("nahw,nbhw->hwab", torch.fft.fft2(x).conj(), torch.fft.fft2(y))
    products = torch.fft.ifft2(spectrum, dim=(0, 1)).real
    closest = torch.linalg.svdvals(products).sum(-1).max()
    return torch.arccos((closest / (torch.linalg.norm(x) * torch.linalg.norm(y))).clamp(max=1))


def layer_outputs(model: Model, w: Tensor, x: Tensor) -> list[Tensor]:
    """What each layer (a module with weights) gives out for inputs ``x`` (n, ...), in evaluation mode."""
    outputs: dict[str, Tensor] = {}

    def keep(layer: str) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            outputs[layer] = output.detach()

        return hook

    hooks = [model.module.get_submodule(layer).register_forward_hook(keep(layer)) for layer in model.layers]
    try:
        model(w, x)
    finally:
        for hook in hooks:
            hook.remove()
    for layer in model.layers:
        if layer not in outputs:
            raise SpecError(f"layer {layer} is not called as a module, so that its output cannot be compared")
    return [outputs[layer] for layer in model.layers]


def similarities(model: Model, weights: Sequence[Tensor], x: Tensor, measure: Similarity = linear_cka) -> Tensor:
    """How alike the layers of C models of one network are on the same inputs: (L, C, C), by ``measure``."""
    outputs = [layer_outputs(model, w, x) for w in weights]
    return torch.stack([
        torch.stack([torch.stack([measure(a[layer], b[layer]).to(torch.float32) for b in outputs]) for a in outputs])
        for layer in range(len(model.layers))
    ])  # fmt: skip


def _trained(model: Model) -> Tensor:
    """1 (d,) where a weight is trained, else 0."""
    return (torch.arange(model.size) < model.trainable).to(torch.float32)


def _centred(x: Tensor) -> Tensor:
    x = x.to(torch.float64)
    return x - x.mean(0)
