"""Folders of files that we made, sealed by their hashes, so that a file that has changed since is found before use.

A file whose size and time of change are those of its seal counts as unchanged: nobody waits for gigabytes to be read
again. What changes bytes without leaving a trace there, a failing disk say, only a ``thorough`` look finds.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from bench.files import write_whole
from bench.types import DataError

SEAL = ".seal.json"
# Nanoseconds after which two changes of a file cannot have the same time; FAT counts in steps of two seconds.
TICK = 2_000_000_000


def close(folder: Path) -> None:
    """Seal the files that lie in ``folder`` now."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SEAL)
    marks = {file.relative_to(folder).as_posix(): [sha256(file), *stamp(file)] for file in files}
    write_whole(folder / SEAL, json.dumps(marks).encode())


def check(folder: Path, remedy: str) -> None:
    """Raise :class:`DataError`, ending with the ``remedy``, when a file of a sealed ``folder`` has changed."""
    for file, deviation in deviations(folder).items():
        if deviation:
            raise DataError(f"{folder / file} is damaged: {deviation}; {remedy}")


def deviations(folder: Path, *, thorough: bool = False) -> dict[str, str]:
    """For each file of a sealed ``folder`` how it deviates from what was sealed; empty if it does not."""
    seal = folder / SEAL
    try:
        marks = {file: (digest, size, time) for file, (digest, size, time) in json.loads(seal.read_bytes()).items()}
        settled = seal.stat().st_mtime_ns - TICK
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return {SEAL: f"not readable ({error})"}
    found, hashed = {}, 0
    for name, (digest, size, time) in marks.items():
        file = folder / name
        if not file.is_file():
            found[name] = "it is not there"
        elif file.stat().st_size != size:
            found[name] = f"expected {size} bytes, found {file.stat().st_size}"
        elif not thorough and stamp(file) == (size, time) and time < settled:
            found[name] = ""
        else:
            hashed += 1
            found[name] = "" if (now := sha256(file)) == digest else f"expected sha256 {digest}, found {now}"
    if hashed and not any(found.values()):
        with suppress(OSError):  # a cache that only others may write to
            write_whole(seal, json.dumps({name: [marks[name][0], *stamp(folder / name)] for name in marks}).encode())
    return found


def stamp(file: Path) -> tuple[int, int]:
    """Size in bytes and time of the last change in ns."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def sha256(file: Path) -> str:
    """The hex digest of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
