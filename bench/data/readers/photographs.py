"""Photographs of any size: brought to one size and one light, kept as bytes, and changed at random for training."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample

from bench.data.readers.images import Normalise, _uniform
from bench.types import DataError

LARGEST = 50_000_000  # pixels of a photograph that is still decoded
NORM = 6  # of Minkowski, the one that the prepared data sets use


def read_jpeg(file: Path) -> Image.Image:
    """The decoded colour photograph in a JPEG ``file``; raises :class:`DataError`."""
    try:
        image = Image.open(io.BytesIO(file.read_bytes()), formats=["JPEG"])
        if image.mode != "RGB" or image.width * image.height > LARGEST:
            what = f"{image.width} x {image.height} pixels of mode {image.mode}"
            raise DataError(f"{file}: {what}, expected RGB and at most {LARGEST} pixels")
        image.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} is no readable JPEG photograph ({error}); unpack it again") from error
    return image


def standardised(image: Image.Image, side: int) -> Image.Image:
    """A photograph with shorter side ``side`` (the other rounded down) in neutral light, once through JPEG.

    The last step loses a little, as the files did that others have prepared and trained on.
    """
    ratio = side / min(image.size)
    size = (int(image.width * ratio), int(image.height * ratio))
    pixels = shades_of_grey(np.asarray(image.resize(size, Image.Resampling.BILINEAR)))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return Image.open(buffer, formats=["JPEG"])


def shades_of_grey(pixels: np.ndarray) -> np.ndarray:
    """Bytes (height, width, 3) with the colour of the light taken out.

    The light is the Minkowski mean (norm 6) of each channel; a grey light changes nothing. What gets brighter than 255
    starts again at 0, as in the prepared files. Source: Finlayson and Trezzi, "Shades of Gray and Colour Constancy"
    (Color Imaging Conference, 2004).
    """
    # All in float32: rounding down makes other bytes of the last digit of another precision.
    bright = pixels.astype(np.float32)
    light = np.power(np.power(bright, NORM).mean(axis=(0, 1)), 1 / NORM)
    tiny = np.finfo(np.float32).tiny
    direction = light / np.maximum(np.sqrt(np.square(light).sum()), tiny)
    gain = 1 / np.maximum(direction * np.float32(np.sqrt(3)), tiny)
    # The remainder is what conversion to bytes gives on the usual processors; written out, it is so on all of them.
    return (bright * gain).astype(np.int64).astype(np.uint8)


def centre_square(pixels: np.ndarray, side: int) -> np.ndarray:
    """The middle (side, side, 3) of (height, width, 3); where it is smaller, its border is repeated above and left."""
    missing = [max(0, side - length) for length in pixels.shape[:2]]
    padded = np.pad(pixels, [(missing[0], 0), (missing[1], 0), (0, 0)], mode="edge")
    top, left = ((length - side) // 2 for length in padded.shape[:2])
    return padded[top : top + side, left : left + side]


@dataclass(frozen=True)
class CentreCrop:
    """The middle ``size`` pixels of square photographs, normalised by ``pixels``: how they look without changes."""

    pixels: Normalise
    size: int

    def __call__(self, x: Tensor) -> Tensor:
        """Photographs (n, channels, side, side) become (n, channels, size, size)."""
        edge = (x.shape[-1] - self.size) // 2
        return self.pixels(x[:, :, edge : edge + self.size, edge : edge + self.size])


@dataclass(frozen=True)
class AugmentPhotographs:
    """Random changes of square photographs and a random crop of ``size`` pixels, which ``pixels`` then normalises.

    Each happens half of the time: scaled by up to the share ``scaling``; turned by up to ``rotation`` degrees, with
    reflected borders; contrast and brightness changed by up to the shares ``contrast`` and ``brightness``; mirrored
    left-right, upside down or both; one to eight squares of ``hole`` pixels blackened. The crop always happens.
    Source: the training transforms of FLamby's Fed-ISIC2019, which resample up to twice where this resamples once,
    and which draw the number of holes once for all photographs.
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
        """Bytes (n, channels, side, side) become floats (n, channels, size, size); ``keys`` is (n,) int64."""
        happens, amount, places = _uniform(keys, 13 + 2 * self.holes).split([5, 8, 2 * self.holes], dim=1)
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
        # Normalise expects bytes.
        return self.pixels(x * 255)

    def _grid(self, x: Tensor, happens: Tensor, amount: Tensor) -> Tensor:
        """Where each new pixel comes from: (n, size, size, 2), x then y, from -1 to 1."""
        side = x.shape[-1]
        scale = 1 + self.scaling * (2 * amount[:, 0] - 1) * happens[:, 0]
        angle = torch.deg2rad(self.rotation * (2 * amount[:, 1] - 1) * happens[:, 1])
        # Whole pixels: without scaling and rotation nothing is blurred.
        room = ((side * scale - self.size) / 2)[:, None]
        shift = (room * (2 * amount[:, 4:6] - 1)).round()
        way = (amount[:, 6] * 3).floor()  # 0 left-right, 1 upside down, 2 both
        sign = 1 - 2 * (torch.stack([way != 1, way != 0], dim=1) & happens[:, 3:4]).float()

        place = torch.arange(self.size, device=x.device) - (self.size - 1) / 2
        u = ((place + shift[:, :1]) * sign[:, :1])[:, None, :]
        v = ((place + shift[:, 1:]) * sign[:, 1:])[:, :, None]
        cosine, sine = ((f(angle) / scale * 2 / (side - 1))[:, None, None] for f in (torch.cos, torch.sin))
        return torch.stack([cosine * u - sine * v, sine * u + cosine * v], dim=-1)

    def _holes(self, places: Tensor, number: Tensor, happens: Tensor) -> Tensor:
        """Which pixels (n, size, size) are blackened."""
        corner = (places * (self.size - self.hole + 1)).floor()[:, :, None]
        place = torch.arange(self.size, device=places.device)
        inside = (place >= corner) & (place < corner + self.hole)
        rows, columns = inside.split(self.holes, dim=1)
        there = torch.arange(self.holes, device=places.device) <= (number * self.holes).floor()[:, None]
        rows = rows & (there & happens[:, None])[:, :, None]
        return (rows[:, :, :, None] & columns[:, :, None, :]).any(dim=1)
