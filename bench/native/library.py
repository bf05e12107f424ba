"""Shared libraries: C files compiled for this machine and kept in the cache, and the checks before one is loaded.

A file in the cache is a library followed by the SHA-256 of its name and content. The bytes that are checked are the
bytes that are loaded: they are copied to a temporary folder that only this user may enter. The checksum detects damage
and exchanged files. It does not stop a program that runs as this user, or as the administrator, from writing others.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from bench.files import cache_folder, write_whole
from bench.machine import compiler
from bench.types import content_hash

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")
DIGEST = 32  # bytes of a SHA-256
SHARED = "the cached library is not private"


class UnusableError(Exception):
    """A C file has no library that can be used.

    ``reason`` names no path, so that records of two machines may be equal; the message adds ``detail``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason} ({detail})")
        self.reason = reason


class NoCompilerError(UnusableError):
    """There is no compiler."""


def load(source: Path) -> tuple[ctypes.CDLL, str]:
    """Return the functions of a C file and the SHA-256 of their library.

    The library is compiled if the cache lacks it or holds a damaged one. Its key is the content of the C file, the
    compiler's command and version, and the processor. Raises :class:`UnusableError`, also if the cached file or its
    folder belongs to another user or may be written by other users.
    """
    if os.name != "posix":
        raise NoCompilerError("no compiler", "kernels need Linux or macOS")
    try:
        folder = cache_folder() / "native"
        with suppress(OSError):  # a cache without write permission: the library is compiled and not kept
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / f"{source.stem}-{_key(source)}.so"
        content = _checked(kept)
        with tempfile.TemporaryDirectory(dir=folder if os.access(folder, os.W_OK) else None) as private:
            library = Path(private) / kept.name
            if content is None:
                _output([*compiler(), *FLAGS, "-o", str(library), str(source)])
                content = library.read_bytes()
                with suppress(OSError):
                    write_whole(kept, content + _checksum(kept, content))
            else:
                library.write_bytes(content)
            return ctypes.CDLL(str(library)), hashlib.sha256(content).hexdigest()
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}" if error.filename else " ".join(str(error).split())
        raise UnusableError("the library cannot be loaded", detail) from error


def _checked(file: Path) -> bytes | None:
    """Return the library in a file of the cache; None if there is none or it is damaged."""
    try:
        _refuse_foreign(file.parent, file.parent.stat())
        with open(file, "rb", opener=_open_itself) as stream:
            _refuse_foreign(file, os.fstat(stream.fileno()))
            content = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    library, checksum = content[:-DIGEST], content[-DIGEST:]
    return library if _checksum(file, library) == checksum else None


def _open_itself(path: str, flags: int) -> int:
    """Open a file, but follow no link and wait for no writer of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _checksum(file: Path, library: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + library).digest()


def _refuse_foreign(path: Path, status: os.stat_result) -> None:
    """Raise :class:`UnusableError` if other users own or may write the path."""
    if status.st_uid != os.geteuid():
        raise UnusableError(SHARED, f"{path} belongs to another user: set BENCH_CACHE to a folder of your own")
    if status.st_mode & 0o022:
        raise UnusableError(SHARED, f"other users may write {path}: run chmod go-w {path}")


def _key(source: Path) -> str:
    version, processor = _output([*compiler(), "--version"]), _processor()
    return content_hash(
        {
            "source": source.read_text(),
            "flags": FLAGS,
            "command": compiler(),
            "version": version,
            "processor": processor,
        }
    )


def _output(command: list[str]) -> str:
    """Return what a compiler prints."""
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
    except FileNotFoundError as error:
        raise NoCompilerError("no compiler", command[0]) from error
    except OSError as error:
        raise UnusableError("the compiler fails", f"{command[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines() or [f"exit status {error.returncode}"]
        detail = next((line for line in lines if "error" in line), lines[0])
        raise UnusableError("the compiler fails", f"{command[0]}: {detail}") from error


def _processor() -> str:
    """Return the features of the processor: machines that differ in them may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
