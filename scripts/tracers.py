"""Tracers that are compared with silobench's own: each traces a function of tensors and returns what runs it.

The first five are silobench's recorder: as it is, and with parts of it switched off. ``make_fx`` is PyTorch's own
tracer. It is measured as it is; with its graph simplified by PyTorch's own passes; with operations decomposed into
simpler ones; and compiled by ``torch.compile``'s backend (inductor).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx

from bench.train.trace import capture, recorder
from bench.train.trace.recorder import LooksAtNumbersError

Flat = Callable[..., Sequence[Tensor]]
Passes = Callable[[fx.GraphModule, Sequence[Tensor]], Any]  # from a traced module to a callable module
Tracer = Callable[[Flat, Sequence[Tensor], bool], Any]
_own = capture.trace


@dataclass(frozen=True)
class Traced:
    """The part of a traced module that silobench uses."""

    forward: Flat
    graph: fx.Graph
    meta: dict[str, int] = field(default_factory=lambda: {"written": 0, "flops": 0})


def without(**parts: Any) -> Tracer:
    """Return silobench's recorder with names of its module replaced."""

    def trace(function: Flat, arguments: Sequence[Tensor], iterated: bool) -> Any:
        with patch.multiple(recorder, **parts):
            return _own(function, arguments, iterated)

    return trace


class _ComputesAll(recorder.Recorder):
    """The recorder without results that are computed once."""

    def _settled(self, node: fx.Node) -> bool:
        return False


def without_constants(function: Flat, arguments: Sequence[Tensor], iterated: bool) -> Any:
    """Trace with silobench's recorder; results that depend on no argument are computed in every call."""
    with patch.object(capture, "Recorder", _ComputesAll):
        return _own(function, arguments, iterated)


def untraced(function: Flat, arguments: Sequence[Tensor], iterated: bool) -> Any:
    """Leave the function as written: hooks, ``vmap`` and ``grad`` run in every call."""
    raise LooksAtNumbersError


def make_fx(function: Flat, arguments: Sequence[Tensor], iterated: bool, passes: Passes, decomposed: bool) -> Traced:
    """Trace with PyTorch's tracer."""
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental import proxy_tensor

    table = dict(core_aten_decompositions()) if decomposed else {}
    # A tensor given twice must become two arguments.
    own = [argument.detach() for argument in arguments]
    with torch.no_grad():
        module = proxy_tensor.make_fx(lambda *each: list(function(*each)), decomposition_table=table)(*own)
        ready = passes(module, own)
    return Traced(ready.forward, ready.graph)


def as_it_is(module: fx.GraphModule, arguments: Sequence[Tensor]) -> fx.GraphModule:
    return module


def simplified(module: fx.GraphModule, arguments: Sequence[Tensor]) -> fx.GraphModule:
    """Remove operations without use and repeated ones, and compute constants once."""
    from torch._functorch.compile_utils import fx_graph_cse
    from torch._inductor.constant_folding import constant_fold

    module = fx.GraphModule(module, fx_graph_cse(module.graph))
    constant_fold(module)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def in_place(module: fx.GraphModule, arguments: Sequence[Tensor]) -> fx.GraphModule:
    """Simplify, and let operations overwrite values that nothing reads again."""
    from torch.fx.passes.reinplace import reinplace

    return reinplace(simplified(module, arguments), *arguments)


def inductor(module: fx.GraphModule, arguments: Sequence[Tensor]) -> Traced:
    """Compile the graph, including the first call, in which compiling happens."""
    compiled: Any = torch.compile(module, dynamic=False, fullgraph=True)
    compiled(*[argument.clone() for argument in arguments])
    return Traced(compiled, module.graph)


TRACERS: dict[str, Tracer] = {
    "recorder": _own,
    "recorder, nothing in place": without(write_over=lambda *given: None),
    "recorder, constants in every step": without_constants,
    "recorder, views and functions as traced": without(_VIEWS=set(), _RESHAPES=set(), _METHODS=set(), concatenated={}),
    "untraced": untraced,
    "make_fx": partial(make_fx, passes=as_it_is, decomposed=False),
    "make_fx, decomposed": partial(make_fx, passes=as_it_is, decomposed=True),
    "make_fx, simplified": partial(make_fx, passes=simplified, decomposed=False),
    "make_fx, simplified, in place": partial(make_fx, passes=in_place, decomposed=False),
    "make_fx, inductor": partial(make_fx, passes=inductor, decomposed=False),
}


@contextmanager
def observed(tracer: Tracer, observe: Callable[[Any, Sequence[Tensor], bool], None]) -> Iterator[None]:
    """Let silobench trace with ``tracer``; tell ``observe`` what runs each function, and its example arguments."""

    def trace(function: Flat, arguments: Sequence[Tensor], iterated: bool) -> Any:
        kept = [argument.clone() for argument in arguments]
        try:
            traced = tracer(function, arguments, iterated)
        except LooksAtNumbersError:
            observe(Traced(function, fx.Graph()), kept, iterated)
            raise
        observe(traced, kept, iterated)
        return traced

    with patch.object(capture, "trace", trace):
        yield
