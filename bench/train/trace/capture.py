"""Tracing: a function of tensors recorded as a sequence of tensor operations, and replayed.

Running hooks, ``vmap`` and ``grad`` in every local step would cost more than the arithmetic of a small model. A step is
therefore traced once per run batch, and the traced operations are replayed: the same operations on the same numbers,
without the Python code between them. Results that depend on no argument are computed once, views that change nothing
are dropped, and operations overwrite values that nothing reads again, because new memory costs more than arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from bench.train.trace.recorder import LooksAtNumbersError, Recorder


class Captured:
    """A traced function; call it with arguments of the tree structure, shapes and strides it was traced with.

    A function that reads the numbers of its tensors (``item``, ``if x > 0``) is not traced and runs as written.
    ``operations`` counts the operations of a call, ``written`` the numbers that they write, and ``flops`` their
    floating-point operations. With ``iterated`` the results are the first argument of the next call, which may
    overwrite it; the caller must not use it again.
    """

    def __init__(self, function: Callable[..., Any], *example: Any, iterated: bool = False) -> None:
        leaves, self._arguments = pytree.tree_flatten(example)
        self._results: Any = None

        def flat(*leaves: Tensor) -> list[Tensor]:
            results, self._results = pytree.tree_flatten(function(*pytree.tree_unflatten(leaves, self._arguments)))
            return results

        self.flat: Callable[..., Sequence[Tensor]] = flat
        self.operations, self.written, self.flops = 1, 0, 0
        try:
            traced = trace(flat, leaves, iterated)
        except LooksAtNumbersError:
            return
        self.flat = traced.forward
        self.operations = sum(node.op in ("call_function", "call_method") for node in traced.graph.nodes)
        self.written, self.flops = traced.meta["written"], traced.meta["flops"]

    def __call__(self, *arguments: Any) -> Any:
        leaves = pytree.tree_leaves(arguments)
        with torch.no_grad():
            return pytree.tree_unflatten(self.flat(*leaves), self._results)


def trace(function: Callable[..., Sequence[Tensor]], arguments: Sequence[Tensor], iterated: bool) -> fx.GraphModule:
    """Return the operations of ``function(*arguments)`` as a graph with one placeholder per argument.

    With ``iterated`` they may overwrite the first arguments, which are the results of the previous call.
    """
    # The recorder distinguishes tensors by object, so that a tensor given twice must become two.
    arguments = [argument.detach() for argument in arguments]
    recorder = Recorder(arguments)
    with torch.no_grad(), recorder:
        results = list(function(*arguments))
    return recorder.finish(results, iterated)


def last_operation(function: Callable[[], Tensor]) -> fx.Node:
    """Return the operation that produced the function's result, with earlier operations as its inputs."""
    recorder = Recorder([])
    with torch.no_grad(), recorder:
        result = function()
    return recorder.node(result)


def own_draws(function: Callable[[], Tensor]) -> list[str]:
    """Return the names of the function's operations that draw from torch's global generator."""
    recorder = Recorder([])
    with torch.no_grad(), recorder:
        function()
    return sorted({str(node.target) for node in recorder.graph.nodes if _draws(node)})


def _draws(node: fx.Node) -> bool:
    """Return whether an operation draws from torch's own generator; attention without dropout does not."""
    operation = node.target
    if not isinstance(operation, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in operation.tags:
        return False
    arguments = {each.name: each.default_value for each in operation._schema.arguments}
    given = dict(zip(arguments, node.args, strict=False)) | node.kwargs
    return bool((arguments | given).get("dropout_p", True))
