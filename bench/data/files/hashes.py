"""SHA-256 of files, kept in the cache until a file changes, because large files take long to read.

A file is taken as unchanged while its stamp is: its size, the times of the last change of content and of state, and
its inode number. Copying a file over another, or restoring the modification time, changes the stamp.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.files import digest, recall, remember

# Nanoseconds after which two changes of a file have different times; FAT counts in steps of 2 s.
CLOCK_STEP = 2_000_000_000

Stamp = tuple[int, int, int, int]


def combined(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the contents of ``files`` in this order."""
    begun, stamps = time.time_ns(), list(map(stamp, files))
    question = {"files": [[str(file.absolute()), *mark] for file, mark in zip(files, stamps, strict=True)]}
    if kept := recall("inputs", question):
        return str(kept)
    found = digest([sha256(file) for file in files])
    if settled(stamps, begun):
        remember("inputs", question, found)
    return found


def stamp(file: Path) -> Stamp:
    """Return size in bytes, times of the last change of content and of state in ns, and inode number."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def settled(stamps: Iterable[Sequence[int]], moment: int) -> bool:
    """Return whether any change after the time ``moment`` (ns) alters the stamp of its file: all are older."""
    return all(max(changed, altered) < moment - CLOCK_STEP for _, changed, altered, _ in stamps)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
