"""Networks for feature vectors, as FENDA-FL uses them on Fed-Heart-Disease and GEMINI (section 4, Table 9, appendix D).

One output is a probability (the network ends in a sigmoid); several are logits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn

from bench.registry import Allowed, register
from bench.types import SpecError

Width = Annotated[int, Allowed(ge=1)]
Widths = Annotated[int | Sequence[int], Allowed(ge=1)]  # of one hidden layer, or of each of several
Share = Annotated[float, Allowed(ge=0, lt=1)]


class BaseHead(nn.Module):
    """A feature extractor ``base`` followed by a ``head``, the two parts of split methods (FedPer, MOON ...)."""

    def __init__(self, base: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x))


class Parallel(nn.Module):
    """Two feature extractors in parallel under one head, which receives (local, global) features concatenated.

    FENDA-FL, Figure 1.
    """

    def __init__(self, local_extractor: nn.Module, global_extractor: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.local_extractor, self.global_extractor, self.head = local_extractor, global_extractor, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.local_extractor(x), self.global_extractor(x)], dim=1))


def classifier(features: int, outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """Build dropout, one linear layer and, for a single output, a sigmoid."""
    layers: list[nn.Module] = [*_dropout(dropout), nn.Linear(features, outputs)]
    if outputs == 1:
        layers.append(nn.Sigmoid())
    return nn.Sequential(*layers)


def _dropout(share: float) -> list[nn.Module]:
    return [nn.Dropout(share)] if share else []


def _extractor(inputs: tuple[int, ...], widths: Sequence[int], dropout: float) -> nn.Sequential:
    """Build hidden layers with ReLU, and dropout between them."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(math.prod(inputs), widths[0]), nn.ReLU()]
    for entering, leaving in pairwise(widths):
        layers += [*_dropout(dropout), nn.Linear(entering, leaving), nn.ReLU()]
    return nn.Sequential(*layers)


def _widths(option: str, hidden: int | Sequence[int]) -> list[int]:
    widths = [hidden] if isinstance(hidden, int) else list(hidden)
    if not widths:
        raise SpecError(f"{option} = {hidden!r}: expected the width of a hidden layer, or a list of widths")
    return widths


@register("logistic")
def logistic(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """Build logistic or softmax regression: one linear layer (14 parameters on Fed-Heart-Disease)."""
    return BaseHead(nn.Flatten(), classifier(math.prod(inputs), outputs))


@register("mlp")
def mlp(inputs: tuple[int, ...], outputs: int, *, hidden: Widths = 10, dropout: Share = 0.0) -> nn.Module:
    """Build hidden layers with ReLU, each followed by dropout; ``hidden`` is one width or a list of widths.

    On Fed-Heart-Disease a width of 10 gives 151 parameters, printed as 152, and a width of 5 gives 76.
    """
    widths = _widths("hidden", hidden)
    return BaseHead(_extractor(inputs, widths, dropout), classifier(widths[-1], outputs, dropout))


@register("parallel_mlp")
def parallel_mlp(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    hidden: Widths = 5,
    dropout: Share = 0.0,
    global_hidden: Widths | None = None,
    head_hidden: Annotated[Sequence[int], Allowed(ge=1)] = (),
) -> nn.Module:
    """Build local and global hidden layers under one head (hidden 5: 151 parameters on Fed-Heart-Disease).

    ``hidden`` are the widths of the local layers, and of the global ones unless ``global_hidden`` is given;
    ``head_hidden`` are those of hidden layers in the head.
    """
    local_widths = _widths("hidden", hidden)
    global_widths = local_widths if global_hidden is None else _widths("global_hidden", global_hidden)
    head: list[nn.Module] = []
    entering = local_widths[-1] + global_widths[-1]
    for leaving in _widths("head_hidden", head_hidden) if head_hidden else []:
        head += [*_dropout(dropout), nn.Linear(entering, leaving), nn.ReLU()]
        entering = leaving
    return Parallel(
        _extractor(inputs, local_widths, dropout),
        _extractor(inputs, global_widths, dropout),
        nn.Sequential(*head, *classifier(entering, outputs, dropout)),
    )
