"""Shared libraries: C files compiled for this machine and kept in the cache."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import tempfile
from pathlib import Path

from bench.files import cache_folder, write_whole
from bench.machine import compiler
from bench.types import content_hash

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")


class UnusableError(Exception):
    """A C file has no library that can be used; the message is the reason in one line."""


class NoCompilerError(UnusableError):
    """There is no compiler."""


def load(source: Path) -> tuple[ctypes.CDLL, str]:
    """Return the functions of a C file and the SHA-256 of their library, which is compiled if the cache lacks it.

    The library's key in the cache is the content of the file, the compiler's command and version, and the processor.
    Raises :class:`UnusableError`.
    """
    try:
        version = _output([*compiler(), "--version"])
        key = {
            "source": source.read_text(), "flags": FLAGS, "command": compiler(), "version": version,
            "processor": _processor(),
        }  # fmt: skip
        shared = cache_folder() / "native" / f"{source.stem}-{content_hash(key)}.so"
        if not shared.exists():
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / shared.name
                _output([*compiler(), *FLAGS, "-o", str(made), str(source)])
                write_whole(shared, made.read_bytes())
        return ctypes.CDLL(str(shared)), hashlib.sha256(shared.read_bytes()).hexdigest()
    except OSError as error:
        raise UnusableError(str(error)) from error


def _output(command: list[str]) -> str:
    """Return what a compiler prints."""
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
    except FileNotFoundError as error:
        raise NoCompilerError(f"no compiler {command[0]}") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or str(error)
        raise UnusableError(f"{command[0]} cannot compile it: {reason.splitlines()[0]}") from error


def _processor() -> str:
    """Return the features of the processor: machines that differ in them may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
