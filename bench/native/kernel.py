"""The class of a kernel, and the registration of its functions as torch operations."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, library

from bench import machine
from bench.native.library import NoCompilerError, UnusableError, load

_log = logging.getLogger(__name__)
_off = False


class Comparison(NamedTuple):
    """Numbers that a kernel computed, the exact ones (both n numbers), and the largest error allowed."""

    found: Tensor
    exact: Tensor
    allowed: Tensor

    @property
    def agrees(self) -> bool:
        """Whether all errors are small enough, and the same numbers are not finite."""
        equal = (self.found == self.exact) | (self.found.isnan() & self.exact.isnan())
        return bool((equal | ((self.found - self.exact).abs() <= self.allowed)).all())


class Kernel:
    """The functions of a C file of this package, loaded when they are first needed.

    ``compare`` yields comparisons of the functions with their definition in tensor operations. If one disagrees,
    because of the compiler or its options, the functions are not used.
    """

    def __init__(self, source: Path, compare: Callable[[Any], Iterable[Comparison]]) -> None:
        self.source, self.name, self.compare = source, source.stem, compare

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
            # In another thread no trace, transform or mode of the caller is active.
            with ThreadPoolExecutor(1) as thread:
                functions, digest = thread.submit(self._load).result()
        except UnusableError as error:
            if not isinstance(error, NoCompilerError):  # a compiler is optional
                _log.warning("kernel %s: %s; torch computes it, slower", self.name, error)
            machine.computed_by_torch[self.name] = error.reason
            return None, f"torch ({error.reason})"
        return functions, digest[:16]

    def _load(self) -> tuple[ctypes.CDLL, str]:
        functions, digest = load(self.source)
        try:
            agrees = all(each.agrees for each in self.compare(functions))
        except AttributeError as error:  # a function is missing
            raise UnusableError("the library cannot be loaded", str(error)) from error
        if not agrees:
            command = " ".join(machine.compiler())
            raise UnusableError("the library differs from the definition", f"compiled by {command}")
        return functions, digest


concatenated: dict[Any, int] = {}  # torch operation -> position of the list that it treats as one tensor


def operation(signature: str, concatenates: str | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that registers a function as a torch operation with this name and these types.

    ``concatenates`` names an argument, a list of tensors with one axis. The function must return the same for the list
    as for their concatenation, so that a trace may leave the concatenation out.
    """
    name, types = signature.split("(", 1)

    def made(function: Callable[..., Any]) -> Any:
        library.define(f"silobench::{name}", f"({types}")
        library.impl(f"silobench::{name}", "cpu", function)
        registered = getattr(torch.ops.silobench, name)
        if concatenates:
            names = [argument.name for argument in registered.default._schema.arguments]
            concatenated[registered.default] = names.index(concatenates)
        return registered

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
