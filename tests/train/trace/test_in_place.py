"""In-place versions of traced operations: used only where no result changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from bench.train.trace.in_place import _twin, memory, same, write_over

aten = torch.ops.aten
Step = tuple[Any, tuple[Any, ...]]  # an operation and its operands: names of earlier results, or numbers


def rewritten(arguments: dict[str, Tensor], steps: dict[str, Step], results: list[str]) -> tuple[list[str], bool]:
    """Build a graph of the steps and rewrite it; return its operations, and whether its results are unchanged."""
    graph = fx.Graph()
    nodes: dict[Any, fx.Node] = {}
    values: dict[fx.Node, Tensor] = {}
    for name, value in arguments.items():
        nodes[name] = graph.placeholder(name)
        values[nodes[name]] = value
    for name, (operation, operands) in steps.items():
        nodes[name] = graph.call_function(operation, tuple(nodes.get(each, each) for each in operands))
        given = [values[each] if isinstance(each, fx.Node) else each for each in nodes[name].args]
        values[nodes[name]] = operation(*given)
    graph.output([nodes[name] for name in results])
    expected = [values[nodes[name]].clone() for name in results]
    write_over(graph, values, {memory(value) for value in arguments.values()})
    graph.lint()
    given = [value.clone() for value in arguments.values()]
    found = fx.GraphModule(torch.nn.Module(), graph)(*given)
    unchanged = all(map(torch.equal, given, arguments.values())) and all(map(torch.equal, found, expected))
    return [node.target._opname for node in graph.nodes if node.op == "call_function"], unchanged


X = {"x": torch.tensor([1.0, 4.0, 9.0])}
TWO = X | {"y": torch.tensor([2.0, 3.0, 5.0])}


NEG, EXP = (aten.neg.default, ("x",)), (aten.exp.default, ("a",))


@pytest.mark.parametrize(("arguments", "steps", "results", "operations"), [
    pytest.param(X, {"a": (aten.mul.Tensor, ("x", "x")), "b": EXP}, ["b"], ["mul", "exp_"],
                 id="a value that is read for the last time is overwritten, an argument is not"),
    pytest.param(X, {"a": NEG, "b": EXP, "c": (aten.sqrt.default, ("b",))}, ["c"], ["neg", "exp_", "sqrt_"],
                 id="memory is passed on from operation to operation"),
    pytest.param(X, {"a": NEG, "b": EXP, "c": (aten.add.Tensor, ("a", "b"))}, ["c"], ["neg", "exp", "add_"],
                 id="a value that is read again is not overwritten"),
    pytest.param(X, {"a": NEG, "b": EXP}, ["a", "b"], ["neg", "exp"], id="a result is not overwritten"),
    pytest.param(X, {"a": NEG, "v": (aten.view.default, ("a", (3,))), "b": EXP, "c": (aten.add.Tensor, ("b", "v"))},
                 ["c"], ["neg", "view", "exp", "add_"], id="a value whose view is read again is not overwritten"),
    pytest.param(TWO, {"a": (aten.neg.default, ("y",)), "b": (aten.add.Tensor, ("x", "a"))}, ["b"], ["neg", "add_"],
                 id="a sum may overwrite its second operand"),
    pytest.param(TWO, {"a": (aten.neg.default, ("y",)), "b": (aten.sub.Tensor, ("x", "a"))}, ["b"], ["neg", "sub"],
                 id="a difference may not"),
    pytest.param(X, {"a": NEG, "b": (aten.mul.Tensor, ("a", "a"))}, ["b"], ["neg", "mul_"],
                 id="both operands may be the value itself"),
    pytest.param(X, {"a": NEG, "v": (aten.flip.default, ("a", (0,))), "b": (aten.mul.Tensor, ("v", "a"))},
                 ["b"], ["neg", "flip", "mul_"], id="a copy is no view"),
    pytest.param({"x": torch.ones(3, 3)},
                 {"a": NEG, "v": (aten.t.default, ("a",)), "b": (aten.div.Tensor, ("a", "v"))},
                 ["b"], ["neg", "t", "div"], id="an operand that is also read through a view is not overwritten"),
    pytest.param({"x": torch.ones(3, 1), "y": torch.ones(3, 4)}, {"a": NEG, "b": (aten.add.Tensor, ("a", "y"))},
                 ["b"], ["neg", "add"], id="an operand of another shape is not overwritten"),
    pytest.param(X, {"a": NEG, "b": (aten.gt.Scalar, ("a", 0.0))}, ["b"], ["neg", "gt"],
                 id="an operand of another type is not overwritten"),
    pytest.param(X, {"a": NEG, "b": (aten.cumsum.default, ("a", 0))}, ["b"], ["neg", "cumsum"],
                 id="an operation that is not pointwise makes a new value"),
])  # fmt: skip
def test_operations_work_in_place_where_nothing_changes(
    arguments: dict[str, Tensor], steps: dict[str, Step], results: list[str], operations: list[str]
) -> None:
    assert rewritten(arguments, steps, results) == (operations, True)


@pytest.mark.parametrize(
    ("operation", "twin"),
    [
        (aten.exp.default, aten.exp_.default),
        (aten.add.Tensor, aten.add_.Tensor),
        (aten.bernoulli.default, None),  # random
        (aten.exp_.default, None),  # in place already
        (aten.mm.default, None),  # not pointwise
        (aten.where.self, None),  # torch has no in-place version
        (len, None),
    ],
)
def test_the_in_place_version_of_an_operation(operation: Callable[..., object], twin: object) -> None:
    assert _twin(operation) is twin


def test_views_share_memory_and_forms_differ() -> None:
    x = torch.zeros(2, 3)
    assert memory(x[1]) == memory(x.T) == memory(x) != memory(x.clone())
    assert same(x, x.clone())
    assert not any(same(x, other) for other in (x.T, x.T.contiguous().T, x.double(), x[:1]))
