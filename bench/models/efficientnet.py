"""EfficientNet-B0 (Tan & Le, 2019, Table 1), as FENDA-FL uses it on Fed-ISIC2019 (section 4.1, Table 9).

Details follow efficientnet_pytorch, whose ImageNet weights FENDA-FL starts from (efficientnet-b0-355c32eb.pth):
batch-norm with epsilon 1e-3 and momentum 0.01, padding on the far side where a convolution halves the image, stochastic
depth up to 0.2 in training. torchvision's weights can be loaded, too, but were trained with epsilon 1e-5 and symmetric
padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from torch import Tensor, nn

from bench.models import pretrained
from bench.models.shapes import image
from bench.models.tabular import BaseHead, Parallel, classifier
from bench.registry import Allowed, register

# Expansion, channels, blocks, stride of the first block, kernel (the paper's stages 2 to 8).
STAGES = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)
STEM, FEATURES = 32, 1280
BLOCKS = sum(repeats for _, _, repeats, _, _ in STAGES)
Frozen = Annotated[int, Allowed(ge=0, le=BLOCKS)]
SURVIVAL = 0.8  # probability of keeping the last block's residual branch


def _convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Build a convolution to 1 / ``stride`` of the size, and batch-norm."""
    near, far = (kernel - stride) // 2, (kernel - stride + 1) // 2
    return nn.Sequential(
        nn.ZeroPad2d((near, far, near, far)),
        nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    )


class SqueezeExcite(nn.Module):
    """Scales every channel by a number in (0, 1) computed from the means of all channels (Hu et al., 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(), nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class MBConv(nn.Module):
    """Inverted bottleneck: widen, convolve each channel separately, scale channels, narrow, add the residual."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int, drop: float) -> None:
        super().__init__()
        inner = inputs * expansion
        widen = [_convolution(inputs, inner), nn.SiLU()] if expansion > 1 else []
        self.branch = nn.Sequential(
            *widen, _convolution(inner, inner, kernel, stride, groups=inner), nn.SiLU(),
            SqueezeExcite(inner, inputs // 4), _convolution(inner, outputs),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs
        # One channel per sample, so that a draw drops the branch of a whole sample.
        self.drop = nn.Dropout1d(drop)

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        return x + self.drop(y.flatten(1)[:, None]).view_as(y) if self.residual else y


def _extractor(inputs: tuple[int, ...], frozen: int, weights: str) -> nn.Sequential:
    """Build stem, 16 blocks and the last convolution, pooled: (n, channels, height, width) -> (n, 1280)."""
    channels, _, _ = image("efficientnet_b0", inputs)
    parts: list[nn.Module] = [nn.Sequential(_convolution(channels, STEM, 3, 2), nn.SiLU()), *_blocks()]
    last = nn.Sequential(_convolution(STAGES[-1][1], FEATURES), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    extractor = nn.Sequential(*parts, last)
    pretrained.load_into(extractor, weights, LAYOUTS)
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


# Names of the weights in other packages, in the order of this model -----------------------------------------------


def _convolution_names(convolution: str, norm: str) -> Iterator[str]:
    yield f"{convolution}.weight"
    yield from (f"{norm}.{value}" for value in ("weight", "bias", "running_mean", "running_var"))


def _squeeze_names(*layers: str) -> Iterator[str]:
    yield from (f"{layer}.{value}" for layer in layers for value in ("weight", "bias"))


def _efficientnet_pytorch() -> Iterator[str]:
    yield from _convolution_names("_conv_stem", "_bn0")
    expansions = [expansion for expansion, _, repeats, _, _ in STAGES for _ in range(repeats)]
    for number, expansion in enumerate(expansions):
        block = f"_blocks.{number}."
        if expansion > 1:
            yield from _convolution_names(f"{block}_expand_conv", f"{block}_bn0")
        yield from _convolution_names(f"{block}_depthwise_conv", f"{block}_bn1")
        yield from _squeeze_names(f"{block}_se_reduce", f"{block}_se_expand")
        yield from _convolution_names(f"{block}_project_conv", f"{block}_bn2")
    yield from _convolution_names("_conv_head", "_bn1")


def _torchvision() -> Iterator[str]:
    yield from _convolution_names("features.0.0", "features.0.1")
    for stage, (expansion, _, repeats, _, _) in enumerate(STAGES, start=1):
        for repeat in range(repeats):
            parts = [f"features.{stage}.{repeat}.block.{part}" for part in range(4)]
            if expansion > 1:
                widen = parts.pop(0)
                yield from _convolution_names(f"{widen}.0", f"{widen}.1")
            each, squeeze, narrow = parts[:3]
            yield from _convolution_names(f"{each}.0", f"{each}.1")
            yield from _squeeze_names(f"{squeeze}.fc1", f"{squeeze}.fc2")
            yield from _convolution_names(f"{narrow}.0", f"{narrow}.1")
    yield from _convolution_names("features.8.0", "features.8.1")


LAYOUTS = {"efficientnet_pytorch": tuple(_efficientnet_pytorch()), "torchvision": tuple(_torchvision())}


@register("efficientnet_b0")
def efficientnet_b0(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    frozen_blocks: Frozen = 0,
    weights: str = "none",
) -> nn.Module:
    """Build EfficientNet-B0 (4,017,796 parameters for 8 classes; 2,315,544 trained with 13 of its 16 blocks frozen).

    ``frozen_blocks`` above 0 also freeze the stem. ``weights`` "sha256:..." names a file of pretrained weights of
    efficientnet_pytorch or torchvision (see :mod:`bench.models.pretrained`); with "none" all weights are random. Raises
    :class:`SpecError` for inputs that are not images, and :class:`DataError` for a file that is missing or does not
    fit.
    """
    return BaseHead(_extractor(inputs, frozen_blocks, weights), classifier(FEATURES, outputs, dropout=0.2))


@register("parallel_efficientnet_b0")
def parallel_efficientnet_b0(
    inputs: tuple[int, ...],
    outputs: int,
    *,
    frozen_blocks: Frozen = 13,
    weights: str = "none",
) -> nn.Module:
    """Build local and global EfficientNet-B0 extractors under a hidden layer of 64 (4,775,016 trained parameters).

    Options and errors are those of :func:`efficientnet_b0`.
    """
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * FEATURES, 64), nn.ReLU(), classifier(64, outputs))
    local_extractor, global_extractor = (_extractor(inputs, frozen_blocks, weights) for _ in range(2))
    return Parallel(local_extractor, global_extractor, head)
