"""Kernels in C, compiled for this machine at first use and kept in the cache; settings of the C library's memory.

Only computations that torch cannot do in one operation are written in C. Every kernel has a definition in tensor
operations, which tests compare it with, and which is computed where there is no compiler.
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

_kernels_off = False


def kernels(source: Path) -> Any:
    """Return the functions of a C file; None if no compiler (``CC``, or else ``cc``) can compile it.

    The cache key is the content of the file, the compiler and the processor.
    """
    return None if _kernels_off else _compiled(source)


def serve(source: Path, *tensors: Tensor) -> bool:
    """Return whether the functions of a C file are available for these tensors: float32 in main memory."""
    single = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in tensors)
    return single and kernels(source) is not None


def operation(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that registers a function as a torch operation with this name and these types."""
    name, types = signature.split("(", 1)

    def made(function: Callable[..., Any]) -> Any:
        library.define(f"silobench::{name}", f"({types}")
        library.impl(f"silobench::{name}", "cpu", function)
        return getattr(torch.ops.silobench, name)

    return made


@cache
def keep_freed_memory() -> None:
    """Let this process keep up to 1 GB of freed memory, half of it in large pages, if its C library (glibc) can.

    Every local step allocates the same megabytes as the step before. If they are returned to the system in between,
    they must be mapped again page by page, which takes a tenth to a half of the step's time. Large pages save another
    3 % of a step that uses tens of megabytes (docs/design-notes.md).
    """
    c = ctypes.CDLL(None) if os.name == "posix" else None
    if c is None or not hasattr(c, "mallopt"):
        return
    for parameter, value in ((M_MMAP_THRESHOLD, 2**25), (M_TRIM_THRESHOLD, 2**30)):
        c.mallopt(parameter, value)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        c.mallopt(M_MMAP_MAX, 0)  # the heap itself must grow
        c.malloc.restype = c_void_p
        reserved = c.malloc(c_size_t(RESERVED))
        c.mallopt(M_MMAP_MAX, 2**16)
        if reserved is not None:
            first = -(-reserved // LARGE_PAGE) * LARGE_PAGE
            c.madvise(c_void_p(first), c_size_t(reserved + RESERVED - first), mmap.MADV_HUGEPAGE)
            c.free(c_void_p(reserved))


@contextmanager
def without_kernels() -> Iterator[None]:
    """Use no kernels, so that traces are the same on a machine without a compiler."""
    global _kernels_off
    before, _kernels_off = _kernels_off, True
    try:
        yield
    finally:
        _kernels_off = before


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
        return None  # no compiler; the description of the machine says so
    except (OSError, subprocess.CalledProcessError) as error:
        output = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(error)
        reason = output.splitlines()[0]
        warnings.warn(f"{compiler()[0]} cannot compile {source.name}, torch is used, slower: {reason}", stacklevel=2)
        return None


def _processor() -> str:
    """Return the features of the processor: machines that differ in them may share a cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
