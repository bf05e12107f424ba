"""3-D U-Nets (Çiçek et al., 2016), as FENDA-FL uses them on Fed-IXI (section 4.1, Tables 9 and 12).

The output is a probability for every channel and voxel (softmax over channels). The paper prints twice the number of
parameters: its tool counted every layer under two names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.models.tabular import BaseHead, Parallel, Width
from bench.registry import register
from bench.types import SpecError


def _convolution(inputs: int, outputs: int, normalised: bool = True) -> nn.Sequential:
    """Build a 3x3x3 convolution, batch-norm (which makes a bias superfluous) and a PReLU with one slope."""
    norm = [nn.BatchNorm3d(outputs)] if normalised else []
    return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1, bias=not normalised), *norm, nn.PReLU())


class UNet(nn.Module):
    """Features of every voxel: (n, inputs, ...) -> (n, 2 channels, ...).

    It has ``levels`` resolutions, each half of the previous one; level i, from 0, has 2^(i+1) ``channels``. On the way
    up, a level receives its own features of the way down next to the interpolated ones from below.
    """

    def __init__(self, inputs: int, channels: int, levels: int) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels + 1)]
        first = nn.Sequential(_convolution(inputs, channels, normalised=False), _convolution(channels, widths[1]))
        deeper = (
            nn.Sequential(_convolution(width, width), _convolution(width, 2 * width)) for width in widths[1:levels]
        )
        self.down = nn.ModuleList([first, *deeper])
        self.up = nn.ModuleList(
            nn.Sequential(_convolution(width + 2 * width, width), _convolution(width, width))
            for width in reversed(widths[1:levels])
        )
        self.pool = nn.MaxPool3d(2)
        self.enlarge = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for level in self.down[:-1]:
            skipped.append(level(x))
            x = self.pool(skipped[-1])
        x = self.down[-1](x)
        for level in self.up:
            x = level(torch.cat([skipped.pop(), self.enlarge(x)], dim=1))
        return x


def _extractor(inputs: tuple[int, ...], channels: int, levels: int) -> UNet:
    smallest = 2 ** (levels - 1)
    if len(inputs) != 4 or any(side % smallest for side in inputs[1:]):
        raise SpecError(
            f"a U-Net of {levels} levels takes volumes (channels, depth, height, width) whose sides are multiples of "
            f"{smallest}, not {inputs}; crop or pad them"
        )
    return UNet(inputs[0], channels, levels)


def _head(features: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv3d(features, outputs, 1), nn.Softmax(dim=1))


@register("unet3d")
def unet3d(inputs: tuple[int, ...], outputs: int, *, channels: Width = 12, levels: Width = 3) -> nn.Module:
    """Build a 3-D U-Net (channels 12: 553,260 parameters; 8, a twin of APFL: 246,156; 11: 464,982)."""
    return BaseHead(_extractor(inputs, channels, levels), _head(2 * channels, outputs))


@register("parallel_unet3d")
def parallel_unet3d(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    channels: Width = 8,
    levels: Width = 3,
    global_channels: Width | None = None,
    global_levels: Width | None = None,
) -> nn.Module:
    """Build local and global 3-D U-Nets under one 1x1x1 convolution (channels 8: 492,310 parameters).

    ``channels`` and ``levels`` are the local U-Net's, and the global one's unless it has its own.
    """
    global_channels = channels if global_channels is None else global_channels
    global_levels = levels if global_levels is None else global_levels
    return Parallel(
        _extractor(inputs, channels, levels),
        _extractor(inputs, global_channels, global_levels),
        _head(2 * (channels + global_channels), outputs),
    )
