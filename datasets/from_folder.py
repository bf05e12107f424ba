"""Your own pictures: PNG or JPEG files in one folder per site and class."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bench.data.readers.own_data import check_split, hold_out, own_path, require_classes, require_samples, split
from bench.limits import MAX_PICTURE_PIXELS, MAX_PICTURES_BYTES
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB"}  # Pillow's modes by number of channels
EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


@register("from_folder")
def from_folder(
    root: Path | None = None,
    *,
    path: str = "",
    size: int = 32,
    channels: int = 3,
    test_fraction: float = 0.25,
    split_seed: int = 0,
) -> Federation:
    """Your own pictures: ``path`` / site / class / picture, PNG or JPEG, resized to ``size`` x ``size`` pixels.

    Inputs are stored as bytes (n, ``channels``, size, size); the model sees them in [-1, 1]. One channel is grey, three
    are red, green and blue. Classes are numbered in the order of their names over all sites.
    """
    check_split(test_fraction, split_seed)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 1024:
        raise SpecError(f"size = {size!r}: expected a whole number of pixels from 1 to 1024")
    if channels not in MODES or isinstance(channels, bool):
        raise SpecError(f"channels = {channels!r}: expected 1 (grey) or 3 (colour)")
    folder = own_path(path, root).resolve()
    sites = {site.name: pictures(site) for site in folders(folder)}
    if not sites:
        raise DataError(f"{folder}: there is no folder in it; expected one for each site")
    total = sum(map(len, sites.values())) * channels * size**2
    if total > MAX_PICTURES_BYTES:
        raise DataError(f"{folder}: its pictures need {total / 2**30:.0f} GiB, expected at most 8; give a smaller size")
    known = sorted({label for found in sites.values() for _, label in found})
    task = require_classes(folder.name, known)

    clients = []
    for site, found in sites.items():
        require_samples(folder.name, site, len(found))
        x = np.stack([read(file, size, channels) for file, _ in found])
        y = np.array([known.index(label) for _, label in found])
        train, test = hold_out(y, test_fraction, split_seed)
        clients.append(Client(site, split(x[train], y[train], task), split(x[test], y[test], task)))
    return Federation(folder.name, tuple(clients), task, classes=len(known), prepare=prepare)


def prepare(x: torch.Tensor) -> torch.Tensor:
    """Convert bytes (n, ...) to numbers from -1 (black) to 1."""
    return x.float() / 127.5 - 1


def folders(place: Path) -> list[Path]:
    """Return the folders in ``place`` by name; raise :class:`DataError` for a file among them."""
    found = entries(place)
    for entry in found:
        if not entry.is_dir():
            raise DataError(f"{entry}: is a file, expected a folder (site / class / picture); move the file")
    return found


def pictures(site: Path) -> list[tuple[Path, str]]:
    """Return the files of a site with their classes, by class and name."""
    found = []
    for label in folders(site):
        for file in entries(label):
            if file.suffix.lower() not in SUFFIXES or not file.is_file():
                raise DataError(f"{file}: is not a picture, expected {', '.join(SUFFIXES)}; move the file")
            found.append((file, label.name))
    return found


def entries(place: Path) -> list[Path]:
    """Return the files and folders in ``place`` by name, without hidden ones; raise :class:`DataError` for a link."""
    found = sorted(entry for entry in place.iterdir() if not entry.name.startswith("."))
    for entry in found:
        if entry.is_symlink():
            raise DataError(f"{entry}: is a link, expected a folder or a file; replace it by its target")
    return found


def read(file: Path, size: int, channels: int) -> np.ndarray:
    """Return one picture as bytes (channels, size, size).

    Raises :class:`DataError` for a damaged or too large picture and for other files.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit in _check_picture is lower
            with Image.open(file, formats=("PNG", "JPEG")) as picture:
                _check_picture(file, picture)
                scaled = picture.convert(MODES[channels]).resize((size, size), Image.Resampling.BILINEAR)
    except DataError:
        raise
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{file}: is not an intact PNG or JPEG picture ({reason}); replace it") from error
    return np.asarray(scaled).reshape(size, size, channels).transpose(2, 0, 1)


def _check_picture(file: Path, picture: Image.Image) -> None:
    """Refuse pictures that would fill the memory or lose bits, before a pixel is decoded."""
    if picture.width * picture.height > MAX_PICTURE_PIXELS:
        raise DataError(f"{file}: has {picture.width} x {picture.height} pixels, expected at most {MAX_PICTURE_PIXELS}")
    if picture.mode not in EIGHT_BITS:
        raise DataError(f"{file}: has more than 8 bits per channel (mode {picture.mode}); save it with 8")
