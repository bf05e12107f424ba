"""A function of tensors turned into the straight line of tensor operations that it performs.

Running hooks, ``vmap`` and ``grad`` anew in every local step would cost more than the arithmetic of a small model.
So a step is traced once per population, and the traced operations are replayed. The operations and their results
are those of the function; only Python is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_SHAPE_ONLY = {aten.ones_like.default, aten.zeros_like.default}
_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.alias.default, aten.detach.default}


class Captured:
    """A traced function; call it with arguments of the tree structure, shapes and strides it was traced with."""

    def __init__(self, function: Callable[..., Any], *example: Any) -> None:
        leaves, self._arguments = pytree.tree_flatten(example)
        self._results: Any = None

        def flat(*leaves: Tensor) -> list[Tensor]:
            results, self._results = pytree.tree_flatten(function(*pytree.tree_unflatten(leaves, self._arguments)))
            return results

        with torch.no_grad():
            module = make_fx(flat)(*leaves)
        _simplify(module, leaves)
        self.flat: Callable[..., list[Tensor]] = module.forward

    def __call__(self, *arguments: Any) -> Any:
        leaves, structure = pytree.tree_flatten(arguments)
        assert structure == self._arguments, "called with another tree than it was traced with"
        with torch.no_grad():
            return pytree.tree_unflatten(self.flat(*leaves), self._results)


def _simplify(module: fx.GraphModule, leaves: list[Tensor]) -> None:
    """Drop views that change nothing, merge chains of views, and compute once what no argument decides."""
    seen: dict[fx.Node, Tensor] = {}
    fixed: set[fx.Node] = set()
    graph = module.graph
    arguments = iter(leaves)
    for node in list(graph.nodes):
        if node.op == "placeholder":
            seen[node] = next(arguments)
            continue
        if node.op == "get_attr":
            seen[node] = getattr(module, node.target)
            fixed.add(node)
            continue
        if node.op != "call_function":
            continue
        values = fx.node.map_arg((node.args, node.kwargs), lambda each: seen[each])
        value = seen[node] = node.target(*values[0], **values[1])
        if not isinstance(value, Tensor):
            continue
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        if node.target in _VIEWS and source is not None and _same(seen[source], value):
            node.replace_all_uses_with(source)
        elif node.target is aten.view.default and source is not None and source.target is aten.view.default:
            origin = source.args[0]
            if isinstance(origin, fx.Node) and seen[origin].is_contiguous():
                node.update_arg(0, origin)
        elif node.target in _SHAPE_ONLY or (
            all(each in fixed for each in node.all_input_nodes) and _repeatable(node.target)
        ):
            name = f"constant_{len(fixed)}"
            module.register_buffer(name, value)
            with graph.inserting_before(node):
                constant = graph.get_attr(name)
            seen[constant] = value
            fixed.add(constant)
            node.replace_all_uses_with(constant)
    graph.eliminate_dead_code()
    module.recompile()


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def _repeatable(operation: Any) -> bool:
    return isinstance(operation, torch._ops.OpOverload) and not (
        operation._schema.is_mutable or torch.Tag.nondeterministic_seeded in operation.tags
    )
