"""Atomic writes of files and folders, and the cache folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.types import SilobenchError


def cache_folder() -> Path:
    """Return the folder of cached files: ``BENCH_CACHE``, by default ``~/.cache/silobench``."""
    return Path(os.environ.get("BENCH_CACHE") or "~/.cache/silobench").expanduser()


def write_whole(file: Path, content: bytes) -> Path:
    """Write ``content`` to ``file`` atomically and return ``file``: readers see the old content or the new one.

    Missing folders are created. A killed process may leave a temporary file that ends in ``.part``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        # Only the owner may read a file from mkstemp; results are shared.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return file


def check_writable(folder: Path) -> None:
    """Raise :class:`SilobenchError` if ``folder`` is no folder, or if nothing can be written to it; create nothing."""
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not existing.is_dir():
        reason = f"{existing} is not a folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = f"no permission to write to {existing}"
    else:
        return
    raise SilobenchError(f"{folder}: cannot be written ({reason}); fix this or name another folder")


@contextmanager
def new_place(place: Path) -> Iterator[Path]:
    """Yield a temporary path for a file or folder that is moved to ``place`` at the end of the block.

    Nothing is moved if the block raises. Raises :class:`SilobenchError` if ``place`` exists or cannot be written.
    """
    if place.exists():
        raise SilobenchError(f"{place}: already exists; name another path or delete it first")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".", suffix=".part") as folder:
            made = Path(folder) / place.name
            yield made
            made.replace(place)
    except OSError as error:
        raise SilobenchError(f"{place}: cannot be written ({error.strerror or error})") from error
