"""Reader of volumes in NIfTI files, with limits so that no file can fill the memory."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from bench.optional import optional
from bench.types import DataError

MAX_VOXELS = 512  # along an axis
MAX_BYTES = 512 * 2**20  # of a file, decompressed


def read(file: Path) -> np.ndarray:
    """Return the voxels (depth, height, width) float64 of a .nii or .nii.gz ``file``.

    Raises :class:`DataError` for a damaged file, another shape, and voxels that are not finite numbers.
    """
    nibabel = optional("nibabel", "ixi")
    try:
        image = nibabel.Nifti1Image.from_bytes(_content(file))
        shape, kind = image.shape, image.get_data_dtype().kind
        if len(shape) != 3 or not all(1 <= length <= MAX_VOXELS for length in shape) or kind not in "uif":
            raise DataError(
                f"{file}: has shape {shape} of type {kind!r}, expected three axes of 1 to {MAX_VOXELS} real numbers"
            )
        voxels = np.asarray(image.get_fdata(caching="unchanged"), dtype=np.float64)
    except DataError:
        raise
    except Exception as error:  # nibabel passes on many kinds of errors for damaged headers
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: is not a readable NIfTI volume ({reason}); unpack it again") from error
    if not np.isfinite(voxels).all():
        raise DataError(f"{file}: has voxels that are not finite numbers; unpack it again")
    return voxels


def _content(file: Path) -> bytes:
    """The bytes of a file, decompressed if needed."""
    content = file.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = stream.decompress(content, MAX_BYTES)
        if not stream.eof:
            raise DataError(
                f"{file}: is truncated or decompresses to more than {MAX_BYTES} bytes; unpack the archive again"
            )
    return content
