"""Normalisation and augmentation of small images.

Images are (n, channels, height, width): uint8 as stored, float32 after preparation. Random numbers depend on an
image's key only, not on batches or their order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample

from bench.rng import bits

GREY = (0.299, 0.587, 0.114)  # weights of red, green and blue (ITU-R BT.601)


def resize(x: np.ndarray, size: int) -> np.ndarray:
    """Return images (n, channels, size, size) uint8, resized by Pillow's bilinear filter (with averaging)."""
    return _resize_rows(_resize_rows(x, size).swapaxes(-1, -2), size).swapaxes(-1, -2)


def _resize_rows(x: np.ndarray, width: int) -> np.ndarray:
    """Resize rows only. Pillow resizes each row independently, so all rows are stacked into one tall image."""
    tall = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    resized = Image.fromarray(tall).resize((width, len(tall)), Image.Resampling.BILINEAR)
    return np.asarray(resized).reshape(*x.shape[:-1], width)


@dataclass(frozen=True)
class Normalise:
    """Convert bytes to floats: scale to [0, 1], subtract the ``mean`` and divide by the ``std`` of each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        return (x / 255 - _per_channel(self.mean, x)) / _per_channel(self.std, x)


@dataclass(frozen=True)
class AugmentImages:
    """Augment images at random and normalise them with ``pixels``. Each step is optional; the order is fixed.

    1. Shift by up to ``crop`` pixels, with reflected borders.
    2. Mirror (``flip``) with probability 1/2.
    3. Rotate by up to ``rotation`` degrees, translate by up to the share ``translation`` of the size in whole pixels,
       and scale by up to the share ``scaling``.
    4. With probability 1/2, move the corners inwards by up to half the share ``perspective`` of the size.
    5. Change brightness, contrast and saturation by up to the share ``jitter``.

    Pixels from outside the image are black. Source: the training transforms in the code of PLayer-FL. That code
    resamples up to three times, by nearest neighbour or bilinearly, and changes brightness, contrast and saturation in
    random order; this class resamples once, bilinearly.
    """

    pixels: Normalise
    crop: int = 0
    flip: bool = False
    rotation: float = 0.0
    translation: float = 0.0
    scaling: float = 0.0
    perspective: float = 0.0
    jitter: float = 0.0

    def __call__(self, x: Tensor, keys: Tensor) -> Tensor:
        """Return augmented and normalised images of the same shape as the bytes ``x``; ``keys`` is (n,) int64."""
        random = uniform(keys, 19)
        x = x / 255
        if self.crop:
            x = _shifted(x, *(random[:, :2] * (2 * self.crop + 1)).long().sub(self.crop).unbind(1))
        if self.flip:
            x = torch.where(random[:, 2, None, None, None] < 0.5, x.flip(-1), x)
        x = grid_sample(x, self._grid(x, random[:, 3:16]), mode="bilinear", padding_mode="zeros", align_corners=True)
        if self.jitter:
            x = _jittered(x, 1 + self.jitter * (2 * random[:, 16:19] - 1))
        return self.pixels(x * 255)  # Normalise expects the range of bytes

    def _grid(self, x: Tensor, random: Tensor) -> Tensor:
        """The source position of each new pixel: (n, height, width, 2), x then y, from -1 to 1."""
        height, width = x.shape[-2:]
        vertical, horizontal = torch.meshgrid(_centred(height, x), _centred(width, x), indexing="ij")
        signed = 2 * random[:, :4, None, None] - 1
        u, v = _before_perspective(horizontal, vertical, self.perspective, random[:, 4:])
        u = u - (signed[:, 0] * self.translation * width).round()
        v = v - (signed[:, 1] * self.translation * height).round()
        scale = 1 + self.scaling * signed[:, 2]
        angle = torch.deg2rad(self.rotation * signed[:, 3])
        cosine, sine = angle.cos() / scale, angle.sin() / scale
        across, along = cosine * u + sine * v, cosine * v - sine * u
        return torch.stack([across * (2 / (width - 1)), along * (2 / (height - 1))], dim=-1)


def _per_channel(values: tuple[float, ...], like: Tensor) -> Tensor:
    """Constants (channels, 1, 1), filled on the device: a CUDA graph cannot capture a copy from the host."""
    return torch.cat([torch.full((1, 1, 1), value, device=like.device) for value in values])


def uniform(keys: Tensor, count: int) -> Tensor:
    """Return random numbers (n, count) float32 in [0, 1) with 24 random bits, as a function of ``keys`` (n,) int64."""
    drawn = bits(keys[:, None], torch.arange(count, device=keys.device)) & (2**24 - 1)
    return drawn.float() / 2**24


def _centred(size: int, like: Tensor) -> Tensor:
    """Positions of pixels along an axis relative to its middle."""
    return torch.arange(size, device=like.device) - (size - 1) / 2


def _shifted(x: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Images shifted by whole pixels (n,), with reflected borders."""
    rows = _reflected(x.shape[-2], down)[:, None, :, None].expand(-1, *x.shape[1:])
    x = x.gather(-2, rows)
    return x.gather(-1, _reflected(x.shape[-1], right)[:, None, None, :].expand_as(x))


def _reflected(size: int, shift: Tensor) -> Tensor:
    """The source index of each of ``size`` pixels after a ``shift``: (n, size)."""
    place = (torch.arange(size, device=shift.device) - shift[:, None]).abs()
    return size - 1 - (size - 1 - place).abs()


def _before_perspective(u: Tensor, v: Tensor, distortion: float, random: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of ``u``, ``v`` (height, width) before the four corners moved: each (n, height, width).

    ``random`` is (n, 9): two numbers per corner in the order of the square (0, 0), (1, 0), (1, 1), (0, 1), and one
    that decides whether the corners move at all. The map of the square onto four corners is Heckbert's
    ("Fundamentals of Texture Mapping and Image Warping", 1989, section 2.2.3); its inverse is the adjugate.
    """
    height, width = u.shape
    far_x, far_y = (width - 1) / 2, (height - 1) / 2
    moves = (random[:, 8:] < 0.5).float()
    inwards = [
        (moves * (random[:, axis:8:2] * (math.floor(distortion * (size // 2)) + 1)).floor()).unbind(1)
        for axis, size in enumerate((width, height))
    ]
    x0, x1, x2, x3 = (side * (far_x - by) for side, by in zip((-1, 1, 1, -1), inwards[0], strict=True))
    y0, y1, y2, y3 = (side * (far_y - by) for side, by in zip((-1, -1, 1, 1), inwards[1], strict=True))

    dx1, dx2, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = dx1 * dy2 - dx2 * dy1
    g, h = (sx * dy2 - dx2 * sy) / area, (dx1 * sy - sx * dy1) / area
    a, b, c = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + h * y3, y0

    def inverse(p: Tensor, q: Tensor, r: Tensor) -> Tensor:
        return p[:, None, None] * u + q[:, None, None] * v + r[:, None, None]

    depth = inverse(d * h - e * g, b * g - a * h, a * e - b * d)
    across = inverse(e - f * h, c * h - b, b * f - c * e) / depth
    along = inverse(f * g - d, a - c * g, c * d - a * f) / depth
    return (2 * across - 1) * far_x, (2 * along - 1) * far_y


def _jittered(x: Tensor, factors: Tensor) -> Tensor:
    """Colour images in [0, 1] with brightness, then contrast, then saturation changed by ``factors`` (n, 3)."""
    brightness, contrast, saturation = factors[:, :, None, None, None].unbind(1)
    x = (x * brightness).clamp(0, 1)
    weights = _per_channel(GREY, x)
    mean = (x * weights).sum(1, keepdim=True).mean((-2, -1), keepdim=True)
    x = (mean + contrast * (x - mean)).clamp(0, 1)
    grey = (x * weights).sum(1, keepdim=True)
    return (grey + saturation * (x - grey)).clamp(0, 1)
