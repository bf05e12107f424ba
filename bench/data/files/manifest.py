"""Checksum manifests: SHA-256, size and modification time of every file in a cached folder.

A file whose size and modification time have not changed is taken as unchanged, because hashing large files takes long.
Changes that leave both as they were, such as those of a failing disk, are found by a ``thorough`` check only.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from bench.files import write_whole
from bench.types import DataError

MANIFEST = ".manifest.json"
# Nanoseconds after which two changes of a file have different modification times; FAT counts in steps of 2 s.
CLOCK_STEP = 2_000_000_000


def write(folder: Path) -> None:
    """Write the manifest of all files in ``folder``."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)
    entries = {file.relative_to(folder).as_posix(): [sha256(file), *stamp(file)] for file in files}
    write_whole(folder / MANIFEST, json.dumps(entries).encode())


def check(folder: Path, remedy: str) -> None:
    """Raise :class:`DataError`, which ends with the ``remedy``, if a file of ``folder`` differs from the manifest."""
    for file, deviation in deviations(folder).items():
        if deviation:
            raise DataError(f"{folder / file}: is damaged: {deviation}; {remedy}")


def deviations(folder: Path, *, thorough: bool = False) -> dict[str, str]:
    """Return for each file of ``folder`` how it differs from the manifest; an empty text if it does not."""
    manifest = folder / MANIFEST
    try:
        entries = {
            file: (digest, size, time) for file, (digest, size, time) in json.loads(manifest.read_bytes()).items()
        }
        settled = manifest.stat().st_mtime_ns - CLOCK_STEP
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return {MANIFEST: f"not readable ({error})"}
    found, hashed = {}, 0
    for name, (digest, size, time) in entries.items():
        file = folder / name
        if not file.is_file():
            found[name] = "the file is missing"
        elif file.stat().st_size != size:
            found[name] = f"expected {size} bytes, found {file.stat().st_size}"
        elif not thorough and stamp(file) == (size, time) and time < settled:
            found[name] = ""
        else:
            hashed += 1
            found[name] = "" if (actual := sha256(file)) == digest else f"expected sha256 {digest}, found {actual}"
    if hashed and not any(found.values()):
        renewed = {name: [entries[name][0], *stamp(folder / name)] for name in entries}
        with suppress(OSError):  # the user may not be allowed to write to a shared cache
            write_whole(manifest, json.dumps(renewed).encode())
    return found


def stamp(file: Path) -> tuple[int, int]:
    """Return size in bytes and modification time in ns."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
