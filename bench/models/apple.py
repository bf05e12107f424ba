"""The network of APPLE (Luo & Wu, 2022, section 4.1) for its image data sets."""

from __future__ import annotations

from torch import nn

from bench.models.tabular import BaseHead, classifier
from bench.registry import register


@register("apple_cnn")
def apple_cnn(inputs: tuple[int, ...], outputs: int) -> nn.Module:
    """APPLE's "classic four-layer CNN": two 5x5 convolutions and two linear layers (MNIST: 431,080 parameters).

    Channels (20, 50), no padding and 2x2 pooling are the released code's; torch's default initial weights.
    """
    depth, height, width = inputs
    # Each convolution takes 4 pixels off, each pooling half.
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
