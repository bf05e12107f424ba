"""Files that are whole or not there, and the folder of those that can be made again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.types import SilobenchError


def cache_folder() -> Path:
    return Path(os.environ.get("BENCH_CACHE") or "~/.cache/silobench").expanduser()


def write_whole(file: Path, content: bytes) -> Path:
    """Put ``content`` at ``file``: the old file or the new one, never a part of either. Returns ``file``.

    Folders above it are made. What a killed process leaves behind ends in ``.part``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        # mkstemp makes files only their owner may read; results are to be shared.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return file


@contextmanager
def new_place(place: Path) -> Iterator[Path]:
    """A path at which to make what will be at ``place``, a file or a folder, once the block has ended well.

    Raises :class:`SilobenchError` if something is there already, or cannot be written.
    """
    if place.exists():
        raise SilobenchError(f"{place}: there already; name another place, or delete it first")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".", suffix=".part") as folder:
            made = Path(folder) / place.name
            yield made
            made.replace(place)
    except OSError as error:
        raise SilobenchError(f"{place}: cannot be written ({error.strerror or error})") from error
