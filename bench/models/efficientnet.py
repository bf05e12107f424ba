"""EfficientNet-B0 (Tan & Le, 2019, Table 1), as FENDA-FL uses it on Fed-ISIC2019 (section 4.1, Table 9).

Details of the implementation whose ImageNet weights FENDA-FL starts from: batch-norm with epsilon 1e-3 and momentum
0.01, padding on the far side where a convolution halves the image, stochastic depth up to 0.2 in training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from bench.models.tabular import Parallel, Split, classifier
from bench.registry import register
from bench.types import DataError, SpecError

# Expansion, channels, blocks, stride of the first block, kernel (the paper's stages 2 to 8).
STAGES = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)
STEM, FEATURES = 32, 1280
BLOCKS = sum(repeats for _, _, repeats, _, _ in STAGES)
SURVIVAL = 0.8  # probability of keeping the last block's residual branch


def _convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution to 1 / ``stride`` of the size, and batch-norm."""
    near, far = (kernel - stride) // 2, (kernel - stride + 1) // 2
    return nn.Sequential(
        nn.ZeroPad2d((near, far, near, far)),
        nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    )


class SqueezeExcite(nn.Module):
    """Every channel scaled by a number in (0, 1) that the means of all channels decide (Hu et al., 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(), nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class MBConv(nn.Module):
    """An inverted bottleneck: widen, convolve each channel by itself, weigh the channels, narrow; then the residual."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int, drop: float) -> None:
        super().__init__()
        inner = inputs * expansion
        widen = [_convolution(inputs, inner), nn.SiLU()] if expansion > 1 else []
        self.branch = nn.Sequential(
            *widen, _convolution(inner, inner, kernel, stride, groups=inner), nn.SiLU(),
            SqueezeExcite(inner, inputs // 4), _convolution(inner, outputs),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs
        # Of a single channel, so that it drops the branch of a whole sample.
        self.drop = nn.Dropout1d(drop)

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        return x + self.drop(y.flatten(1)[:, None]).view_as(y) if self.residual else y


def _extractor(inputs: tuple[int, ...], frozen: int, weights: str | None, sha256: str | None) -> nn.Sequential:
    """Stem, 16 blocks and the last convolution, pooled: (n, channels, height, width) -> (n, 1280)."""
    if len(inputs) != 3:
        raise SpecError(f"EfficientNet takes images (channels, height, width), not {inputs}")
    if not 0 <= frozen <= BLOCKS:
        raise SpecError(f"frozen_blocks = {frozen!r}: expected 0 to {BLOCKS}")
    parts: list[nn.Module] = [nn.Sequential(_convolution(inputs[0], STEM, 3, 2), nn.SiLU()), *_blocks()]
    last = nn.Sequential(_convolution(STAGES[-1][1], FEATURES), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    extractor = nn.Sequential(*parts, last)
    if weights is not None or sha256 is not None:
        _load(extractor, weights, sha256)
    if frozen:
        extractor[: frozen + 1].requires_grad_(False)
    return extractor


def _blocks() -> Iterator[MBConv]:
    inputs, number = STEM, 0
    for expansion, outputs, repeats, stride, kernel in STAGES:
        for repeat in range(repeats):
            drop = (1 - SURVIVAL) * number / BLOCKS
            yield MBConv(inputs, outputs, expansion, kernel, stride if repeat == 0 else 1, drop)
            inputs, number = outputs, number + 1


def _load(extractor: nn.Module, weights: str | None, sha256: str | None) -> None:
    """Take the weights from a file of a whole EfficientNet-B0, whatever it calls them: in order, each by its shape."""
    if weights is None or not Path(weights).is_file():
        raise DataError(f"weights = {weights!r}: there is no such file; leave weights out to start from random ones")
    found = hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    if found != sha256:
        raise DataError(f"weights = {weights!r}: its SHA-256 is {found}, not sha256 = {sha256!r}; give the right one")
    ours = [value for value in extractor.state_dict().values() if value.is_floating_point()]
    try:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        theirs = [value for value in state.values() if value.is_floating_point()]
    except Exception as error:  # whatever a foreign file may lead to
        raise DataError(f"{weights}: not a state dict as torch.save writes it") from error
    if [value.shape for value in theirs[: len(ours)]] != [value.shape for value in ours]:
        raise DataError(f"{weights}: not the weights of an EfficientNet-B0 for such images")
    for own, other in zip(ours, theirs, strict=False):
        own.copy_(other)


@register("efficientnet_b0")
def efficientnet_b0(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    frozen_blocks: int = 0,
    weights: str | None = None,
    sha256: str | None = None,
) -> nn.Module:
    """EfficientNet-B0 (4,017,796 parameters for 8 classes; 2,315,544 trained with 13 of its 16 blocks frozen).

    The stem is frozen with the first blocks. ``weights`` is a file of pretrained weights (as written by torch.save)
    with the checksum ``sha256``; without it all weights are random.
    """
    return Split(_extractor(inputs, frozen_blocks, weights, sha256), classifier(FEATURES, outputs, dropout=0.2))


@register("parallel_efficientnet_b0")
def parallel_efficientnet_b0(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    frozen_blocks: int = 13,
    weights: str | None = None,
    sha256: str | None = None,
) -> nn.Module:
    """Local and global EfficientNet-B0 under a hidden layer of 64 units (4,775,016 trained parameters)."""
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * FEATURES, 64), nn.ReLU(), classifier(64, outputs))
    local_extractor, global_extractor = (_extractor(inputs, frozen_blocks, weights, sha256) for _ in range(2))
    return Parallel(local_extractor, global_extractor, head)
