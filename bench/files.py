"""Atomic writes of files and folders, and the cache folder with answers to questions.

A cached file has three lines: the SHA-256 of the other two, the SHA-256 of a question, and the answer as JSON. It is
used only if the checksum is right and the question is the one that is asked. Checksums detect damage, not forgery.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import reprlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.types import SilobenchError, SpecError


def cache_folder() -> Path:
    """Return the folder of cached files: ``BENCH_CACHE``, by default ``~/.cache/silobench``."""
    return expanded("BENCH_CACHE", os.environ.get("BENCH_CACHE") or "~/.cache/silobench", "set it to a folder of yours")


def expanded(origin: str, path: str, remedy: str) -> Path:
    """Return ``path``, given as ``origin``, with the home folder in place of "~".

    Raises :class:`SpecError` that ends with ``remedy`` for a text that cannot be a path on this machine.
    """
    try:
        place = Path(path).expanduser()
        place.stat()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            return place  # a path that does not exist, for instance
        reason = f"it has {len(path):,} characters"
    except (RuntimeError, ValueError) as error:  # an unknown user or home folder; a null character
        reason = str(error).rstrip(".")
    else:
        return place
    raise SpecError(f"{origin} = {reprlib.repr(path)}: is no path on this machine ({reason}); {remedy}")


def remember(folder: str, question: Mapping[str, Any], answer: Any) -> None:
    """Keep the ``answer`` to a ``question`` (both JSON) in a folder of the cache, for :func:`recall`.

    The question holds everything that the answer depends on. A cache that cannot be written keeps nothing.
    """
    asked = digest(question)
    with suppress(OSError):
        write_whole(_place(folder, asked), encoded(asked, answer))


def recall(folder: str, question: Mapping[str, Any]) -> Any:
    """Return the answer kept for ``question``; None if there is none, or only a damaged file or that of another."""
    asked = digest(question)
    with suppress(OSError):
        found, answer = decoded(_place(folder, asked).read_bytes())
        return answer if found == asked else None
    return None


def digest(content: Any) -> str:
    """Return the SHA-256 of ``content``, written as canonical JSON, in hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def encoded(question: str, answer: Any) -> bytes:
    """Return the content of a cached file with the digest of a question and its answer (JSON)."""
    body = f"{question}\n{json.dumps(answer)}\n".encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decoded(content: bytes) -> tuple[str, Any]:
    """Return the digest of the question and the answer of a cached file; ("", None) if the checksum is wrong."""
    checksum, _, body = content.partition(b"\n")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        return "", None
    question, answer = body.splitlines()
    return question.decode(), json.loads(answer)


def _place(folder: str, asked: str) -> Path:
    return cache_folder() / folder / f"{asked[:16]}.json"


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
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(file)  # instead of the temporary file, or of none for a full disk
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
