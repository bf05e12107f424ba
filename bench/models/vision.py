"""Networks for small images (n, channels, height, width)."""

from __future__ import annotations

from torch import nn

from bench.models.tabular import Split, classifier
from bench.registry import register


@register("cnn")
def cnn(inputs: tuple[int, ...], outputs: int, *, channels: int = 16, hidden: int = 64) -> nn.Module:
    """Two 5x5 convolutions (``channels`` and twice as many), each with ReLU and 2x2 pooling, and a hidden layer."""
    depth, height, width = inputs
    base = nn.Sequential(
        nn.Conv2d(depth, channels, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * (height // 4) * (width // 4), hidden),
        nn.ReLU(),
    )
    return Split(base, classifier(hidden, outputs))
