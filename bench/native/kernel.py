"""The class of a kernel, and the registration of its functions as torch operations."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, library

from bench import machine
from bench.native.library import NoCompilerError, UnusableError, load

_log = logging.getLogger(__name__)
_off = False


class Kernel:
    """The functions of a C file of this package, loaded when they are first needed."""

    def __init__(self, source: Path) -> None:
        self.source, self.name = source, source.stem

    @property
    def functions(self) -> Any:
        """The functions in C; None if torch computes the definition."""
        return None if _off else self._loaded[0]

    @property
    def in_use(self) -> str:
        """The first 16 digits of the library's SHA-256, or "torch" and why torch computes the definition."""
        return "torch (kernels are switched off)" if _off else self._loaded[1]

    def serves(self, *tensors: Tensor) -> bool:
        """Return whether the functions are available for these tensors: float32 in main memory."""
        single = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in tensors)
        return single and self.functions is not None

    @cached_property
    def _loaded(self) -> tuple[ctypes.CDLL | None, str]:
        try:
            functions, digest = load(self.source)
        except UnusableError as reason:
            if not isinstance(reason, NoCompilerError):  # a compiler is optional
                _log.warning("kernel %s: %s; torch computes it, slower", self.name, reason)
            machine.computed_by_torch[self.name] = str(reason)
            return None, f"torch ({reason})"
        return functions, digest[:16]


def operation(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that registers a function as a torch operation with this name and these types."""
    name, types = signature.split("(", 1)

    def made(function: Callable[..., Any]) -> Any:
        library.define(f"silobench::{name}", f"({types}")
        library.impl(f"silobench::{name}", "cpu", function)
        return getattr(torch.ops.silobench, name)

    return made


@contextmanager
def without_kernels() -> Iterator[None]:
    """Use no kernels, so that traces are the same on a machine without a compiler."""
    global _off
    before, _off = _off, True
    try:
        yield
    finally:
        _off = before
