"""Kernels in C: the files, their definitions in tensor operations, and their loader.

Only computations that torch cannot do in one operation are written in C. A kernel is compiled for this machine when it
is first needed. Where it cannot be used, torch computes its definition.
"""

from __future__ import annotations

from bench.native import adamw, token_block

KERNELS = (adamw.KERNEL, token_block.KERNEL)


def in_use() -> dict[str, str]:
    """Return, for each kernel, the first 16 digits of its library's SHA-256, or "torch" and the reason in brackets.

    Two machines whose kernels have the same digits run the same instructions. The first call in a process loads all
    kernels, and compiles those that the cache lacks.
    """
    return {kernel.name: kernel.in_use for kernel in KERNELS}
