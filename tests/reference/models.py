"""Tiny models without dropout, named the way the split methods cut them; one output ends in a sigmoid.

``BaseHead`` has weights ``base.*`` and ``head.*``; ``Parallel`` has ``local_extractor.*``, ``global_extractor.*`` and a
``head.*`` on the concatenation (local, global). The builders draw torch's default initial weights from ``seed``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BaseHead(nn.Module):
    """A feature extractor and a head after it."""

    def __init__(self, base: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x))


class Parallel(nn.Module):
    """Two feature extractors side by side and a head on both."""

    def __init__(self, local_extractor: nn.Module, global_extractor: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.local_extractor, self.global_extractor, self.head = local_extractor, global_extractor, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.local_extractor(x), self.global_extractor(x)], dim=1))


def _head(features: int, outputs: int) -> nn.Sequential:
    linear = nn.Linear(features, outputs)
    return nn.Sequential(linear, nn.Sigmoid()) if outputs == 1 else nn.Sequential(linear)


def logistic(inputs: int = 13, outputs: int = 1, *, seed: int = 0) -> nn.Module:
    """Logistic (or softmax) regression: a base without weights and a linear head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BaseHead(nn.Flatten(), _head(inputs, outputs))


def mlp(inputs: int = 13, outputs: int = 1, *, hidden: int = 5, batch_norm: bool = False, seed: int = 0) -> nn.Module:
    """One hidden layer with ReLU, after batch-norm where asked."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BaseHead(_extractor(inputs, hidden, batch_norm), _head(hidden, outputs))


def deep(inputs: int = 13, outputs: int = 1, *, hidden: int = 5, seed: int = 0) -> nn.Module:
    """Two hidden layers with ReLU: a model of three layers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        base = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        return BaseHead(base, _head(hidden, outputs))


def parallel(
    inputs: int = 13, outputs: int = 1, *, hidden: int = 5, batch_norm: bool = False, seed: int = 0
) -> nn.Module:
    """A local and a global hidden layer of ``hidden`` units each under one head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        local_extractor, global_extractor = (_extractor(inputs, hidden, batch_norm) for _ in range(2))
        return Parallel(local_extractor, global_extractor, _head(2 * hidden, outputs))


def _extractor(inputs: int, hidden: int, batch_norm: bool) -> nn.Sequential:
    normalise = [nn.BatchNorm1d(hidden)] if batch_norm else []
    return nn.Sequential(nn.Linear(inputs, hidden), *normalise, nn.ReLU())
