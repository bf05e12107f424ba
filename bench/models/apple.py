"""The network of APPLE (Luo & Wu, 2022, section 4.1) for images."""

from __future__ import annotations

from torch import nn

from bench.models.shapes import image
from bench.models.tabular import BaseHead, classifier
from bench.registry import register


@register("apple_cnn")
def apple_cnn(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """Build APPLE's "classic four-layer CNN": two 5x5 convolutions and two linear layers (MNIST: 431,080 parameters).

    Channels (20, 50), no padding and 2x2 pooling are the released code's. Initial weights are torch's default.
    """
    depth, height, width = image("apple_cnn", inputs, 16)
    # Each convolution removes 4 pixels, each pooling halves the size.
    places = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2)
    base = nn.Sequential(
        nn.Conv2d(depth, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * places, 500),
        nn.ReLU(),
    )
    return BaseHead(base, classifier(500, outputs))
