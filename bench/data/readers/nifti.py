"""Volumes in NIfTI files, read with nibabel after the checks that keep a hostile file from filling the memory."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from bench.data.files.user_files import optional
from bench.types import DataError

LONGEST = 512  # voxels along an axis
LARGEST = 512 * 2**20  # bytes of a file, unpacked


def read(file: Path) -> np.ndarray:
    """The finite voxels (depth, height, width) float64 of a .nii or .nii.gz ``file``; raises :class:`DataError`."""
    nibabel = optional("nibabel", "ixi")
    try:
        image = nibabel.Nifti1Image.from_bytes(_content(file))
        shape, kind = image.shape, image.get_data_dtype().kind
        if len(shape) != 3 or not all(1 <= length <= LONGEST for length in shape) or kind not in "uif":
            raise DataError(f"{file}: {shape} of kind {kind!r}, expected three axes of 1 to {LONGEST} real numbers")
        voxels = np.asarray(image.get_fdata(caching="unchanged"), dtype=np.float64)
    except DataError:
        raise
    except Exception as error:  # nibabel raises whatever numpy and struct raise on the header it was given
        reason = " ".join(str(error).split())
        raise DataError(f"{file} is no readable NIfTI volume ({reason}); unpack it again") from error
    if not np.isfinite(voxels).all():
        raise DataError(f"{file}: not all voxels are finite numbers; unpack it again")
    return voxels


def _content(file: Path) -> bytes:
    """The bytes of a file, unpacked if it is compressed."""
    content = file.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = stream.decompress(content, LARGEST)
        if not stream.eof:
            raise DataError(f"{file} is cut off or unpacks to more than {LARGEST} bytes; unpack the archive again")
    return content
