"""Photographs: decoding, resizing, colour constancy and augmentation."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample

from bench.data.readers.images import Normalise, uniform
from bench.types import DataError

MAX_PIXELS = 50_000_000  # of a photograph
MINKOWSKI_NORM = 6


def read_jpeg(file: Path) -> Image.Image:
    """Return the decoded colour photograph in a JPEG ``file``; raise :class:`DataError` for any other file."""
    try:
        image = Image.open(io.BytesIO(file.read_bytes()), formats=["JPEG"])
        if image.mode != "RGB" or image.width * image.height > MAX_PIXELS:
            what = f"{image.width} x {image.height} pixels of mode {image.mode}"
            raise DataError(f"{file}: {what}, expected RGB and at most {MAX_PIXELS} pixels")
        image.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: is not a readable JPEG photograph ({error}); unpack it again") from error
    return image


def standardised(image: Image.Image, side: int) -> Image.Image:
    """Return a photograph with shorter side ``side`` (the other rounded down) and neutral light, compressed as JPEG.

    The compression repeats that of published files.
    """
    ratio = side / min(image.size)
    size = (int(image.width * ratio), int(image.height * ratio))
    pixels = shades_of_grey(np.asarray(image.resize(size, Image.Resampling.BILINEAR)))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return Image.open(buffer, formats=["JPEG"])


def shades_of_grey(pixels: np.ndarray) -> np.ndarray:
    """Return bytes (height, width, 3) without the colour of the light (shades of grey).

    The light is estimated by the Minkowski mean (norm 6) of each channel; grey light changes nothing. Values above 255
    wrap around to 0, as in published files. Source: Finlayson and Trezzi, "Shades of Gray and Colour Constancy" (Color
    Imaging Conference, 2004).
    """
    # In float32 throughout: values are rounded down, so another precision would give other bytes.
    bright = pixels.astype(np.float32)
    light = np.power(np.power(bright, MINKOWSKI_NORM).mean(axis=(0, 1)), 1 / MINKOWSKI_NORM)
    tiny = np.finfo(np.float32).tiny
    direction = light / np.maximum(np.sqrt(np.square(light).sum()), tiny)
    gain = 1 / np.maximum(direction * np.float32(np.sqrt(3)), tiny)
    # Converting to int64 first makes values wrap around on every processor.
    return (bright * gain).astype(np.int64).astype(np.uint8)


def centre_square(pixels: np.ndarray, side: int) -> np.ndarray:
    """Return the middle (side, side, 3) of (height, width, 3); repeat the top and left border if it is smaller."""
    missing = [max(0, side - length) for length in pixels.shape[:2]]
    padded = np.pad(pixels, [(missing[0], 0), (missing[1], 0), (0, 0)], mode="edge")
    top, left = ((length - side) // 2 for length in padded.shape[:2])
    return padded[top : top + side, left : left + side]


@dataclass(frozen=True)
class CentreCrop:
    """Crop the middle ``size`` x ``size`` pixels of square photographs and normalise them with ``pixels``."""

    pixels: Normalise
    size: int

    def __call__(self, x: Tensor) -> Tensor:
        """Return photographs (n, channels, size, size) from (n, channels, side, side)."""
        edge = (x.shape[-1] - self.size) // 2
        return self.pixels(x[:, :, edge : edge + self.size, edge : edge + self.size])


@dataclass(frozen=True)
class AugmentPhotographs:
    """Augment square photographs at random, crop ``size`` x ``size`` pixels and normalise them with ``pixels``.

    Each step happens with probability 1/2: scale by up to the share ``scaling``; rotate by up to ``rotation`` degrees,
    with reflected borders; change contrast and brightness by up to the shares ``contrast`` and ``brightness``; mirror
    horizontally, vertically or both; black out one to ``holes`` squares of ``hole`` pixels. The random crop always
    happens. Source: the training transforms of FLamby's Fed-ISIC2019. They resample up to twice and draw the number of
    squares once for all photographs; this class resamples once and draws it for each photograph.
    """

    pixels: Normalise
    size: int = 200
    scaling: float = 0.07
    rotation: float = 50.0
    brightness: float = 0.15
    contrast: float = 0.1
    hole: int = 16
    holes: int = 8

    def __call__(self, x: Tensor, keys: Tensor) -> Tensor:
        """Return floats (n, channels, size, size) from bytes (n, channels, side, side); ``keys`` is (n,) int64."""
        happens, amount, places = uniform(keys, 13 + 2 * self.holes).split([5, 8, 2 * self.holes], dim=1)
        happens = happens < 0.5
        x = grid_sample(
            x / 255,
            self._grid(x, happens, amount),
            mode="bilinear",
            padding_mode="reflection",
            align_corners=True,
        )
        contrast, brightness = ((2 * amount[:, 2:4] - 1) * happens[:, 2:3])[:, :, None, None, None].unbind(1)
        x = (x * (1 + self.contrast * contrast) + self.brightness * brightness).clamp(0, 1)
        x = x.masked_fill(self._holes(places, amount[:, 7], happens[:, 4])[:, None], 0.0)
        return self.pixels(x * 255)  # Normalise expects the range of bytes

    def _grid(self, x: Tensor, happens: Tensor, amount: Tensor) -> Tensor:
        """The source position of each new pixel: (n, size, size, 2), x then y, from -1 to 1."""
        side = x.shape[-1]
        scale = 1 + self.scaling * (2 * amount[:, 0] - 1) * happens[:, 0]
        angle = torch.deg2rad(self.rotation * (2 * amount[:, 1] - 1) * happens[:, 1])
        # Whole pixels, so that crops without scaling and rotation are not blurred.
        room = ((side * scale - self.size) / 2)[:, None]
        shift = (room * (2 * amount[:, 4:6] - 1)).round()
        way = (amount[:, 6] * 3).floor()  # 0 horizontal, 1 vertical, 2 both
        sign = 1 - 2 * (torch.stack([way != 1, way != 0], dim=1) & happens[:, 3:4]).float()

        place = torch.arange(self.size, device=x.device) - (self.size - 1) / 2
        u = ((place + shift[:, :1]) * sign[:, :1])[:, None, :]
        v = ((place + shift[:, 1:]) * sign[:, 1:])[:, :, None]
        cosine, sine = ((f(angle) / scale * 2 / (side - 1))[:, None, None] for f in (torch.cos, torch.sin))
        return torch.stack([cosine * u - sine * v, sine * u + cosine * v], dim=-1)

    def _holes(self, places: Tensor, number: Tensor, happens: Tensor) -> Tensor:
        """Mask (n, size, size) of the pixels that are blacked out."""
        corner = (places * (self.size - self.hole + 1)).floor()[:, :, None]
        place = torch.arange(self.size, device=places.device)
        inside = (place >= corner) & (place < corner + self.hole)
        rows, columns = inside.split(self.holes, dim=1)
        there = torch.arange(self.holes, device=places.device) <= (number * self.holes).floor()[:, None]
        rows = rows & (there & happens[:, None])[:, :, None]
        return (rows[:, :, :, None] & columns[:, :, None, :]).any(dim=1)
