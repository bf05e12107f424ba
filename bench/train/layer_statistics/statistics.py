"""Statistics of a model's gradients, curvature and representations, layer by layer.

Each definition names its source. A ``loss`` is a function of the weights w (d,), for example
``lambda w: criterion(model(w, x).output, y).mean()``. L is the number of layers (:mod:`bench.algorithms.layers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import grad, vjp

from bench.algorithms import layers
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
    """Return the gradient (d,) at ``w``, with zeros for weights that are not trained."""
    return grad(loss)(w) * layers.trained(model)


def sensitivity(model: Model, loss: Loss, w: Tensor) -> Tensor:
    """Return the cumulative sensitivity (L,) of the layers (:func:`bench.algorithms.layers.cumulative_sensitivity`).

    Source: Elhussein and Gürsoy (2025), equation 2.
    """
    return layers.cumulative_sensitivity(model, w, gradient(model, loss, w))


def gradient_variance(model: Model, loss: Loss, w: Tensor) -> Tensor:
    """Return 1/n_l sum_p (g_p - mean g)^2 over the entries of the gradient in each layer, (L,).

    Source: Elhussein and Gürsoy (2025), equation A.1.
    """
    g, n = gradient(model, loss, w), layers.trained_weights(model).clamp(min=1)
    centred = (g - model.by_layer(model.layer_sums(g) / n)) * layers.trained(model)
    return model.layer_sums(centred**2) / n


def hessian_trace(model: Model, loss: Loss, w: Tensor, *, probes: int, key: int) -> TraceEstimate:
    """Estimate the trace of the loss's Hessian within each layer (the sum of its eigenvalues), (L,).

    Source: Hutchinson (1990). The estimate is the mean, over ``probes`` vectors v of random signs drawn by ``key``, of
    v (H v) summed over each layer. Its standard error is the standard deviation over sqrt(probes). Raises
    :class:`SpecError` for fewer than two probes. Elhussein and Gürsoy (2025, equation A.2) divide the trace by n_l
    (:func:`bench.algorithms.layers.trained_weights`).
    """
    if probes < 2:
        raise SpecError(f"hessian_trace: probes = {probes}: a standard error needs at least 2")
    hessian_times = vjp(grad(loss), w)[1]  # v^T H, which equals (H v)^T
    samples = []
    for probe in range(probes):
        heads = bits(torch.tensor(key), torch.arange(probe * model.size, (probe + 1) * model.size)) >= 0
        v = torch.where(heads, 1.0, -1.0) * layers.trained(model)
        samples.append(model.layer_sums(v * hessian_times(v)[0]))
    drawn = torch.stack(samples)
    return TraceEstimate(drawn.mean(0), drawn.std(0) / probes**0.5)


def linear_cka(x: Tensor, y: Tensor) -> Tensor:
    """Return ||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) of representations (n, ...) of the same n samples.

    Columns are centred. The value is 1 for representations that are equal up to rotation and scale. Source: Kornblith
    et al. (2019). Equation A.3 of Elhussein and Gürsoy (2025) prints the norms in the denominator squared, which would
    not give 1 for equal representations.
    """
    x, y = (_centred(each.flatten(1)) for each in (x, y))
    return (y.T @ x).square().sum() / (torch.linalg.norm(x.T @ x) * torch.linalg.norm(y.T @ y))


def angular_procrustes(x: Tensor, y: Tensor) -> Tensor:
    """Return the angle arccos(||X^T Y||_* / (||X||_F ||Y||_F)) in radians, from 0 to pi / 2.

    Columns are centred; the distance does not change under rotations. For feature maps (n, channels, height, width)
    every place is a row, and the distance is the smallest over all circular shifts of one map against the other.
    Source: Williams et al. (2021). The code of Elhussein and Gürsoy (2025) plots it under the name CKA.
    """
    if x.dim() < 4:
        x, y = (each.flatten(1)[..., None, None] for each in (x, y))
    x, y = (each.to(torch.float64) for each in (x, y))
    x, y = (each - each.mean((0, 2, 3), keepdim=True) for each in (x, y))
    # X^T Y for all shifts at once, as a cross-correlation over height and width.
    spectrum = torch.einsum("nahw,nbhw->hwab", torch.fft.fft2(x).conj(), torch.fft.fft2(y))
    products = torch.fft.ifft2(spectrum, dim=(0, 1)).real
    closest = torch.linalg.svdvals(products).sum(-1).max()
    return torch.arccos((closest / (torch.linalg.norm(x) * torch.linalg.norm(y))).clamp(max=1))


def layer_outputs(model: Model, w: Tensor, x: Tensor) -> list[Tensor]:
    """Return the output of each layer for inputs ``x`` (n, ...), in evaluation mode.

    Raises :class:`SpecError` for a layer whose weights the model uses without calling it as a module.
    """
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
    """Compare the layers of C models of one network on the same inputs by ``measure``; return (L, C, C)."""
    outputs = [layer_outputs(model, w, x) for w in weights]
    return torch.stack([
        torch.stack([torch.stack([measure(a[layer], b[layer]).to(torch.float32) for b in outputs]) for a in outputs])
        for layer in range(len(model.layers))
    ])  # fmt: skip


def _centred(x: Tensor) -> Tensor:
    x = x.to(torch.float64)
    return x - x.mean(0)
