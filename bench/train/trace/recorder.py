"""The recorder of a trace: every tensor operation of a function as a node of a graph."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from bench.native.kernel import concatenated
from bench.train.trace.in_place import memory, same, write_over

aten = torch.ops.aten
_RESHAPES = {aten.view.default, aten._unsafe_view.default}
_VIEWS = _RESHAPES | {aten.expand.default, aten.alias.default, aten.detach.default}
# Called as methods of a tensor, these operations are dispatched in half the time.
_METHODS = {
    *("add", "sub", "mul", "div", "neg", "exp", "sqrt", "addcmul", "addcdiv", "lerp", "clone", "sum"),
    *("add_", "sub_", "mul_", "div_", "neg_", "exp_", "sqrt_", "addcmul_", "addcdiv_", "lerp_"),
    *("mm", "bmm", "addmm", "view", "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "select", "unbind"),
}
_SHAPE_ONLY = {aten.ones_like.default, aten.zeros_like.default, aten.new_zeros.default}


class LooksAtNumbersError(RuntimeError):
    """The function turned a tensor into a Python number, which a trace cannot replay."""


class Recorder(TorchDispatchMode):
    """Records every operation, and for every tensor the operation or argument that it came from."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.values: dict[fx.Node, Tensor] = {}
        self.nodes: dict[int, fx.Node] = {}
        self.kept: list[Tensor] = []  # kept alive with the recorder, so that no id is reused
        self.varying: set[fx.Node] = set()  # nodes that depend on arguments or on random numbers
        # Memory of tensors from outside the function, of tensors changed in place, and of tensors whose content varies.
        self.outside: set[int] = set()
        self.changed: set[int] = set()
        self.unsettled: set[int] = set()
        for number, argument in enumerate(arguments):
            self._name(argument, self.graph.placeholder(f"argument_{number}"), varies=True)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that torch need not keep its compiler out of the recorder; it would import the compiler for that."""
        return False

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        named_args, named_kwargs = pytree.tree_map_only(Tensor, self.node, (args, kwargs))
        tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        random = torch.Tag.nondeterministic_seeded in operation.tags
        varies = random or (operation not in _SHAPE_ONLY and any(self._varies(each) for each in tensors))
        if operation is aten._local_scalar_dense.default and varies:
            raise LooksAtNumbersError
        if operation._schema.is_mutable:
            changing = {memory(each) for each in _written(operation, args, kwargs)}
            self.changed |= changing
            if varies or changing & self.outside:
                self.unsettled |= changing
        result = operation(*args, **kwargs)
        if not isinstance(result, Tensor | list | tuple):
            return result
        source = self.nodes[id(args[0])] if args and isinstance(args[0], Tensor) else None
        if source is not None and isinstance(result, Tensor) and operation in _VIEWS and same(args[0], result):
            self._name(result, source, varies)
            return result
        if source is not None and operation in _RESHAPES and source.target in _RESHAPES:
            origin = source.all_input_nodes[0]
            if self.values[origin].is_contiguous():
                named_args = (origin, *named_args[1:])
        node = self.graph.call_function(operation, tuple(named_args), named_kwargs)
        if (count := flop_registry.get(operation._overloadpacket)) is not None:
            node.meta["flops"] = count(*args, **kwargs, out_val=result)
        if isinstance(result, Tensor):
            self._name(result, node, varies)
        else:
            for place, each in enumerate(result):
                if isinstance(each, Tensor):
                    self._name(each, self.graph.call_function(operator.getitem, (node, place)), varies)
        return result

    def finish(self, results: Sequence[Tensor], iterated: bool) -> fx.GraphModule:
        self.graph.output([self.node(result) for result in results])
        lost = self._lost(results) if iterated else set()
        for node in list(self.graph.nodes):
            if self._settled(node) and not all(self._settled(user) for user in node.users):
                with self.graph.inserting_before(node):
                    node.replace_all_uses_with(self._constant(self.values[node]))
        self._leave_out_concatenations()
        self.graph.eliminate_dead_code(is_impure_node=_has_effects)
        write_over(self.graph, self.values, self._kept() - lost)
        written = sum(self.values[node].numel() for node in self.graph.nodes if self._writes(node))
        for node in self.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload) and node.target._opname in _METHODS:
                node.op, node.target = "call_method", node.target._opname
        traced = fx.GraphModule(self.root, self.graph)
        traced.meta["written"] = written
        traced.meta["flops"] = sum(node.meta.get("flops", 0) for node in self.graph.nodes)
        return traced

    def _leave_out_concatenations(self) -> None:
        """Pass the tensors of a concatenation to operations that return the same for them."""
        for node in self.graph.nodes:
            if (place := concatenated.get(node.target)) is not None:
                node.update_arg(place, [part for whole in node.args[place] for part in self._parts(whole)])

    def _parts(self, whole: fx.Node) -> Sequence[fx.Node]:
        """Return the tensors that the node concatenates along the first axis; the node itself if it must remain."""
        if whole.target is not aten.cat.default or any(whole.args[1:]):
            return [whole]
        parts: Any = whole.args[0]
        return [whole] if any(memory(self.values[part]) in self.changed for part in parts) else parts

    def _writes(self, node: fx.Node) -> bool:
        """Return whether the node is an operation that writes a tensor, not a view."""
        if node not in self.values or not isinstance(node.target, torch._ops.OpOverload):
            return False
        return node.target._schema.is_mutable or not any(each.alias_info for each in node.target._schema.returns)

    def _kept(self) -> set[int]:
        """Return the memory that a call must not change: of arguments, and of values not computed in every call."""
        fixed = (value for node, value in self.values.items() if node not in self.varying or node.op == "placeholder")
        return self.outside.union(map(memory, fixed))

    def _lost(self, results: Sequence[Tensor]) -> set[int]:
        """Return the memory of arguments that are results of the previous call and that nothing else shares."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        arguments = [memory(self.values[node]) for node in placeholders]
        places, given, found = [memory(result) for result in results], self.outside.union(arguments), set()
        for result, place, node, before in zip(results, places, placeholders, arguments, strict=False):
            own = place == before or (place not in given and self._varies(result))
            if own and places.count(place) == 1 and same(result, self.values[node]):
                found.add(before)
        return found

    def _name(self, tensor: Tensor, node: fx.Node, varies: bool) -> None:
        self.kept.append(tensor)
        self.nodes[id(tensor)] = node
        self.values.setdefault(node, tensor)
        if varies:
            self.varying.add(node)

    def node(self, tensor: Tensor) -> fx.Node:
        if id(tensor) not in self.nodes:
            self.outside.add(memory(tensor))
            self._name(tensor, self._constant(tensor), varies=False)
        return self.nodes[id(tensor)]

    def _constant(self, tensor: Tensor) -> fx.Node:
        name = f"constant_{len(self.graph.nodes)}"
        self.root.register_buffer(name, tensor.detach())
        node = self.graph.get_attr(name)
        self.values[node] = tensor
        return node

    def _varies(self, tensor: Tensor) -> bool:
        return self.nodes[id(tensor)] in self.varying or (bool(self.unsettled) and memory(tensor) in self.unsettled)

    def _settled(self, node: fx.Node) -> bool:
        """Return whether a computed node has the same value in every call and is never changed in place."""
        return (
            node.op == "call_function"
            and node in self.values
            and node not in self.varying
            and memory(self.values[node]) not in self.changed
        )


def _written(operation: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that the operation changes in place."""
    given = {**dict(zip((each.name for each in operation._schema.arguments), args, strict=False)), **kwargs}
    writes = [each.name for each in operation._schema.arguments if each.alias_info and each.alias_info.is_write]
    return [each for each in pytree.tree_leaves([given.get(name) for name in writes]) if isinstance(each, Tensor)]


def _has_effects(node: fx.Node) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
