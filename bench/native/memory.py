"""Settings of the C library's memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from ctypes import c_size_t, c_void_p
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # glibc's malloc.h
RESERVED, LARGE_PAGE = 2**29, 2**21  # bytes


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
