"""Checksum manifests: SHA-256 and stamp of every file in a cached folder, and the question that the folder answers.

A file whose stamp (:func:`bench.data.files.hashes.stamp`) has not changed is taken as unchanged, because hashing large
files takes long. Changes that leave it as it was, such as those of a failing disk, are found by a ``thorough`` check
only. A folder that was moved to the place of another is found by its question.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.data.files.hashes import settled, sha256, stamp
from bench.files import decoded, digest, encoded, write_whole
from bench.types import DataError

MANIFEST = ".manifest.json"
DIGITS = 16  # of the question's SHA-256 in the name of its folder


def place(parent: Path, question: Mapping[str, Any]) -> Path:
    """Return the folder in ``parent`` for the files that answer ``question`` (JSON)."""
    return parent / digest(question)[:DIGITS]


def folders(parent: Path) -> list[Path]:
    """Return the existing folders in ``parent``, for any questions."""
    return sorted(folder for folder in parent.glob("[0-9a-f]" * DIGITS) if folder.is_dir())


def write(folder: Path, question: Mapping[str, Any]) -> None:
    """Write the manifest of all files in ``folder``, which answer ``question``."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)
    _write(folder, digest(question), {file.relative_to(folder).as_posix(): sha256(file) for file in files})


def check(folder: Path, remedy: str) -> None:
    """Raise :class:`DataError`, which ends with the ``remedy``, if a file of ``folder`` differs from the manifest."""
    for file, deviation in deviations(folder).items():
        if deviation:
            raise DataError(f"{folder / file}: is damaged: {deviation}; {remedy}")


def deviations(folder: Path, *, thorough: bool = False) -> dict[str, str]:
    """Return for each file of ``folder`` how it differs from the manifest; an empty text if it does not.

    A manifest that cannot be read, or that belongs to the folder of another question, is the only deviation.
    """
    try:
        question, content = decoded((folder / MANIFEST).read_bytes())
    except OSError as error:
        return {MANIFEST: f"cannot be read ({error.strerror or error})"}
    if content is None:
        return {MANIFEST: "its checksum is wrong"}
    if question[:DIGITS] != folder.name:
        return {MANIFEST: f"it belongs to the folder {question[:DIGITS]}"}
    trusted = not thorough and settled((mark for _, mark in content["files"].values()), content["written"])
    found, hashed = {}, False
    for name, (checksum, mark) in content["files"].items():
        file = folder / name
        try:
            if not file.is_file():
                found[name] = "the file is missing"
            elif (size := file.stat().st_size) != mark[0]:
                found[name] = f"expected {mark[0]} bytes, found {size}"
            elif trusted and list(stamp(file)) == mark:
                found[name] = ""
            else:
                actual, hashed = sha256(file), True
                found[name] = "" if actual == checksum else f"expected sha256 {checksum}, found {actual}"
        except OSError as error:
            found[name] = f"cannot be read ({error.strerror or error})"
    if hashed and not any(found.values()):
        with suppress(OSError):  # the user may not be allowed to write to a shared cache
            _write(folder, question, {name: checksum for name, (checksum, _) in content["files"].items()})
    return found


def _write(folder: Path, question: str, checksums: Mapping[str, str]) -> None:
    """Write a manifest with the present stamps."""
    files = {name: [checksum, stamp(folder / name)] for name, checksum in checksums.items()}
    write_whole(folder / MANIFEST, encoded(question, {"written": time.time_ns(), "files": files}))
