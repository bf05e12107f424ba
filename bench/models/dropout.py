"""Dropout by key: a mask is a function of the local step's key and the layer, not of torch's generator."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from bench.rng import derive, happens

# The number of leading axes that share no draw: dropout of channels draws once for each (sample, channel).
_AXES: dict[type[nn.Module], int | None] = {nn.Dropout: None, nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 2}


class Dropout(nn.Module):
    """Dropout with probability ``p``, off while ``key`` is None."""

    def __init__(self, p: float, layer: int, axes: int | None) -> None:
        super().__init__()
        self.p, self.salt, self.axes = p, derive("dropout", layer), axes
        self.key: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.key is None or self.p == 0:
            return x
        if self.p == 1:
            return torch.zeros_like(x)
        shape = x.shape if self.axes is None else (*x.shape[: self.axes], *[1] * (x.dim() - self.axes))
        kept = happens(1 - self.p, self.key ^ self.salt, shape)
        return x * (kept / (1 - self.p))


def replace_dropouts(module: nn.Module) -> list[Dropout]:
    """Replace torch's dropout layers in ``module`` by keyed ones, numbered in model order, and return these."""
    found: list[Dropout] = []
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _DropoutNd) and type(child) in _AXES:
                found.append(Dropout(child.p, len(found), _AXES[type(child)]))
                setattr(parent, name, found[-1])
    return found
