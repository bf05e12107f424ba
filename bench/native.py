"""Kernels in C, compiled for this machine when first asked for and kept in the cache; and the C library's memory.

Only what torch cannot do in one operation is written in C, and every kernel has a twin in tensor operations: its
definition, its test, and what is computed where there is no compiler.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, library

from bench.files import cache_folder, write_whole
from bench.machine import compiler
from bench.types import content_hash

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # glibc's malloc.h
RESERVED, LARGE_PAGE = 2**29, 2**21  # bytes
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")

_without_kernels = False


def kernels(source: Path) -> Any:
    """The functions of a C file; None where no compiler (``CC``, or else ``cc``) can compile it.

    They belong to the content of the file, to the compiler and to the processor: another of these compiles anew.
    """
    return None if _without_kernels else _compiled(source)


def serve(source: Path, *tensors: Tensor) -> bool:
    """Whether the functions of a C file are there and compute with such numbers: single ones in main memory."""
    single = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in tensors)
    return single and kernels(source) is not None


def operation(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Make a function, decorated with its name and types as torch writes them, an operation that torch can trace."""
    name, types = signature.split("(", 1)

    def made(function: Callable[..., Any]) -> Any:
        library.define(f"silobench::{name}", f"({types}")
        library.impl(f"silobench::{name}", "cpu", function)
        return getattr(torch.ops.silobench, name)

    return made


@cache
def keep_freed_memory() -> None:
    """Let this process keep up to 1 GB that it has freed, half of it in large pages, where its C library can.

    A local step asks for the same megabytes as the one before. Given back to the system in between, they are fetched
    anew page by page, or not, by chance: a tenth to a half of such a step's time. Large pages spare another 3 % of a
    step that goes through tens of megabytes.
    """
    c = ctypes.CDLL(None) if os.name == "posix" else None
    if c is None or not hasattr(c, "mallopt"):
        return
    for parameter, value in ((M_MMAP_THRESHOLD, 2**25), (M_TRIM_THRESHOLD, 2**30)):
        c.mallopt(parameter, value)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        c.mallopt(M_MMAP_MAX, 0)  # the heap itself is to grow
        c.malloc.restype = c_void_p
        reserved = c.malloc(c_size_t(RESERVED))
        c.mallopt(M_MMAP_MAX, 2**16)
        if reserved is not None:
            first = -(-reserved // LARGE_PAGE) * LARGE_PAGE
            c.madvise(c_void_p(first), c_size_t(reserved + RESERVED - first), mmap.MADV_HUGEPAGE)
            c.free(c_void_p(reserved))


@contextmanager
def without_kernels() -> Iterator[None]:
    """No kernels: what is traced now is the same on a machine without a compiler."""
    global _without_kernels
    before, _without_kernels = _without_kernels, True
    try:
        yield
    finally:
        _without_kernels = before


@cache
def _compiled(source: Path) -> ctypes.CDLL | None:
    try:
        version = subprocess.run([*compiler(), "--version"], capture_output=True, check=True).stdout.decode()
        key = {"source": source.read_text(), "flags": FLAGS, "compiler": version, "processor": _processor()}
        shared = cache_folder() / "native" / f"{source.stem}-{content_hash(key)}.so"
        if not shared.exists():
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / shared.name
                subprocess.run([*compiler(), *FLAGS, "-o", str(made), str(source)], capture_output=True, check=True)
                write_whole(shared, made.read_bytes())
        return ctypes.CDLL(str(shared))
    except FileNotFoundError:
        return None  # no compiler, as is said beside every cost
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(error)
        why = said.splitlines()[0]
        warnings.warn(
            f"{compiler()[0]} makes no kernel of {source.name}, torch computes it, slower: {why}", stacklevel=2
        )
        return None


def _processor() -> str:
    """What the processor can do: a cache may be shared by machines that differ in it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
