"""In-place versions of traced operations, used where no result changes: new memory costs more than arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

_COMMUTATIVE = {torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor}

Pairs = list[tuple[Any, fx.Node]]  # operands, each with the result that takes its memory


def write_over(graph: fx.Graph, values: Mapping[fx.Node, Tensor], kept: set[int]) -> None:
    """Let operations overwrite an operand that has the form of the result and is read there for the last time.

    ``values`` are the tensors of the nodes when they were traced; ``kept`` is memory that must not be overwritten.
    """
    blocks = _Blocks(graph, values)
    for node, place in blocks.order.items():
        for operands, pairs in _ways(node):
            if all(blocks.free(own, operands, place, kept) and same(values[own], values[to]) for own, to in pairs):
                node.target, node.args = _twin(node.target), operands
                for own, result in pairs:
                    blocks.merge(own, result)
                    if result is not node:
                        result.replace_all_uses_with(own)
                        graph.erase_node(result)
                break


def memory(tensor: Tensor) -> int:
    """Return the address of a tensor's storage: equal for tensors that share memory."""
    return tensor.untyped_storage().data_ptr()


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether tensors have the same shape, strides and type."""
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


class _Blocks:
    """The last operation that reads each block of memory."""

    def __init__(self, graph: fx.Graph, values: Mapping[fx.Node, Tensor]) -> None:
        self.values = values
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.block: dict[int, int] = {}  # memory -> the memory that it was merged into
        self.last: dict[int, int] = {}  # memory -> position of the last operation that reads it, also through views
        for node in self.order:
            if (value := values.get(node)) is not None:
                block = self.block.setdefault(memory(value), memory(value))
                self.last[block] = max([self.last.get(block, 0), *(self.order[user] for user in node.users)])

    def of(self, node: Any) -> int | None:
        return self.block[memory(self.values[node])] if isinstance(node, fx.Node) and node in self.values else None

    def free(self, own: Any, operands: tuple[Any, ...], place: int, kept: set[int]) -> bool:
        """Return whether the operation at position ``place`` may overwrite its operand ``own``."""
        block = self.of(own)
        if block is None or block in kept or self.last[block] != place:
            return False
        return all(each is own or self.of(each) != block for each in pytree.tree_leaves(list(operands)))

    def merge(self, own: fx.Node, result: fx.Node) -> None:
        """Record that the result takes the memory of ``own``."""
        block, merged = self.block[memory(self.values[own])], memory(self.values[result])
        self.last[block] = self.last[self.block[merged]]
        self.block[merged] = block


def _ways(node: fx.Node) -> Iterator[tuple[tuple[Any, ...], Pairs]]:
    """Yield orders of the operands for working in place, and the operand that becomes each result."""
    if (twin := _twin(node.target)) is None:
        return
    if _ours(node.target):
        written = [own for own, each in zip(node.args, twin._schema.arguments, strict=True) if each.alias_info]
        results = {user.args[1]: user for user in node.users}
        if len(results) == len(written) == len(set(written)):
            yield node.args, [(own, results[number]) for number, own in enumerate(written)]
        return
    yield node.args, [(node.args[0], node)]
    if node.target in _COMMUTATIVE and not node.kwargs:
        yield (node.args[1], node.args[0]), [(node.args[1], node)]


@cache
def _twin(operation: Any) -> Any:
    """Return the in-place version: a pointwise operation overwrites its first operand, a kernel as it declares."""
    if not isinstance(operation, torch._ops.OpOverload) or operation._schema.is_mutable:
        return None
    if torch.Tag.nondeterministic_seeded in operation.tags:
        return None
    if torch.Tag.pointwise not in operation.tags and not _ours(operation):
        return None
    packet = getattr(getattr(torch.ops, operation.namespace), f"{operation._opname}_", None)
    return getattr(packet, operation._overloadname, None)


def _ours(operation: Any) -> bool:
    return bool(operation.namespace == "silobench")
