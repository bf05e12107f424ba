"""Sums over the trained weights of each layer of a model.

A layer is a module that holds weights; layers are in the order of ``Model.layers`` (L of them).
"""

from __future__ import annotations

import torch
from torch import Tensor

from bench.models.functional import Model


def trained(model: Model) -> Tensor:
    """Return 1 for every weight that is trained and 0 for the others, (d,)."""
    return (torch.arange(model.size) < model.trainable).to(torch.float32)


def trained_weights(model: Model) -> Tensor:
    """Return the number n_l of trained weights in each layer, (L,)."""
    return model.layer_sums(trained(model))


def cumulative_sensitivity(model: Model, w: Tensor, gradient: Tensor) -> Tensor:
    """Return F_l = sum_{k<=l} 1/n_k sum_p (w_p g_p)^2, (L,), over the trained weights p of layer k.

    (w_p g_p)^2 is the first-order importance of a weight (Molchanov et al., 2019); Elhussein and Gürsoy (2025, equation
    2) average it over each layer, and add up the layers. ``gradient`` (d,) is the loss's at ``w`` (d,), with zeros for
    weights that are not trained.
    """
    return torch.cumsum(model.layer_sums((w * gradient) ** 2) / trained_weights(model).clamp(min=1), 0)
