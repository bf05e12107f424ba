"""Networks for feature vectors, as FENDA-FL uses them on Fed-Heart-Disease (section 4.1, Table 9, appendix D).

One output means a probability (the network ends in a sigmoid), several mean logits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bench.registry import register


class Split(nn.Module):
    """A feature extractor ``base`` followed by a ``head``: where split methods (FedPer, MOON ...) cut."""

    def __init__(self, base: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x))


class Parallel(nn.Module):
    """Two feature extractors side by side under one head, which sees (local, global) features concatenated.

    FENDA-FL, Figure 1.
    """

    def __init__(self, local_extractor: nn.Module, global_extractor: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.local_extractor, self.global_extractor, self.head = local_extractor, global_extractor, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.local_extractor(x), self.global_extractor(x)], dim=1))


def classifier(features: int, outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """Dropout, one linear layer and, for a single output, a sigmoid."""
    layers: list[nn.Module] = [nn.Dropout(dropout)] if dropout else []
    layers.append(nn.Linear(features, outputs))
    if outputs == 1:
        layers.append(nn.Sigmoid())
    return nn.Sequential(*layers)


def _extractor(inputs: tuple[int, ...], hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), hidden), nn.ReLU())


@register("logistic")
def logistic(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """Logistic or softmax regression: one linear layer (14 parameters on Fed-Heart-Disease)."""
    return Split(nn.Flatten(), classifier(math.prod(inputs), outputs))


@register("mlp")
def mlp(inputs: tuple[int, ...], outputs: int, *, hidden: int = 10, dropout: float = 0.0) -> nn.Module:
    """One hidden layer with ReLU (hidden 10: 151 parameters on Fed-Heart-Disease, printed as 152; hidden 5: 76)."""
    return Split(_extractor(inputs, hidden), classifier(hidden, outputs, dropout))


@register("parallel_mlp")
def parallel_mlp(inputs: tuple[int, ...], outputs: int, *, hidden: int = 5, dropout: float = 0.0) -> nn.Module:
    """Local and global hidden layers under one linear head (hidden 5: 151 parameters on Fed-Heart-Disease)."""
    head = classifier(2 * hidden, outputs, dropout)
    return Parallel(_extractor(inputs, hidden), _extractor(inputs, hidden), head)
