"""Exchanged part of a weight vector: the weights that an algorithm shares with the server."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bench.models.functional import Model


class Exchange:
    """The weights of a model whose names are shared, as one vector (s,)."""

    def __init__(self, model: Model, shared: Callable[[str], bool]) -> None:
        self._runs: list[tuple[int, bool]] = []  # lengths of alternating runs of shared and personal weights
        for name, size in zip(model.names, model.sizes, strict=True):
            is_shared = bool(shared(name))
            if self._runs and self._runs[-1][1] == is_shared:
                self._runs[-1] = (self._runs[-1][0] + size, is_shared)
            else:
                self._runs.append((size, is_shared))
        self.names = [name for name in model.names if shared(name)]
        self.size = sum(size for size, is_shared in self._runs if is_shared)
        self.everything = self.size == model.size

    def share(self, w: Tensor) -> Tensor:
        """Return the shared part (s,) of ``w`` (d,)."""
        if self.everything:
            return w
        parts = [part for part, (_, is_shared) in zip(self._cut(w), self._runs, strict=True) if is_shared]
        return torch.cat(parts) if parts else w[:0]

    def install(self, w: Tensor, part: Tensor) -> Tensor:
        """Return ``w`` (d,) with its shared part replaced by ``part`` (s,)."""
        if self.everything:
            return part
        if not self.size:
            return w
        arriving = iter(torch.split(part, [size for size, is_shared in self._runs if is_shared]))
        own = zip(self._cut(w), self._runs, strict=True)
        return torch.cat([next(arriving) if is_shared else piece for piece, (_, is_shared) in own])

    def _cut(self, w: Tensor) -> tuple[Tensor, ...]:
        return torch.split(w, [size for size, _ in self._runs])
