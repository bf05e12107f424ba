"""Networks for small images (n, channels, height, width)."""

from __future__ import annotations

from torch import nn

from bench.models.shapes import image
from bench.models.tabular import BaseHead, Parallel, Width, classifier
from bench.registry import register


@register("cnn")
def cnn(inputs: tuple[int, ...], outputs: int, *, channels: Width = 16, hidden: Width = 64) -> nn.Module:
    """Build two 5x5 convolutions (``channels`` and twice that), each with ReLU and 2x2 pooling, and a hidden layer."""
    return BaseHead(_extractor(inputs, channels, hidden), classifier(hidden, outputs))


@register("parallel_cnn")
def parallel_cnn(inputs: tuple[int, ...], outputs: int, *, channels: Width = 8, hidden: Width = 32) -> nn.Module:
    """Build local and global extractors as in ``cnn`` under one linear head."""
    local_extractor, global_extractor = (_extractor(inputs, channels, hidden) for _ in range(2))
    return Parallel(local_extractor, global_extractor, classifier(2 * hidden, outputs))


def _extractor(inputs: tuple[int, ...], channels: int, hidden: int) -> nn.Sequential:
    depth, height, width = image("cnn", inputs, 4)
    return nn.Sequential(
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
