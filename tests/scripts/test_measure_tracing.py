"""The comparison of tracers: each computes what the function computes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch.func import grad, vmap

from bench.train.trace import capture
from bench.train.trace.capture import Captured
from bench.types import Budget
from tests.train.toy import federation

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"
NAMES = ("measure_tracing", "tracers", "tracing_table", "bench_speed", "algorithm_speed", "global_layers_speed",
         "plain_loop", "plain_transformer")  # fmt: skip
TRACERS = (
    "recorder",
    "recorder, nothing in place",
    "recorder, constants in every step",
    "recorder, views and functions as traced",
    "untraced",
    "make_fx",
    "make_fx, decomposed",
    "make_fx, simplified",
    "make_fx, simplified, in place",
)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("measure_tracing")
    monkeypatch.setattr(module, "SECONDS", 1e-4)
    monkeypatch.setattr(module, "REPEATS", 1)
    toy = module.Work("Toy", "stack", federation, "fedavg", "mlp", Budget(rounds=1, local_steps=2, batch_size=4))
    monkeypatch.setattr(module, "WORKS", {"toy": toy})
    yield module
    for name in NAMES:
        sys.modules.pop(name, None)


def step(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A step of gradient descent with a constant, and with a result that nothing reads again."""
    return w - torch.arange(1.0, 4.0).sqrt() * grad(lambda w: ((x @ w).tanh() ** 2).sum())(w)


@pytest.mark.parametrize("name", TRACERS)
def test_a_tracer_computes_what_the_function_computes(script, name: str) -> None:
    own, seen = capture.trace, []
    w, x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)), torch.ones(2, 5, 4, 3)
    hook = vmap(vmap(step))
    with script.observed(script.TRACERS[name], lambda *given: seen.append(given)):
        captured = Captured(hook, w, x)
    for scale in (1, 2):
        torch.testing.assert_close(captured(scale * w, x), hook(scale * w, x))
    assert len(seen) == 1
    assert capture.trace is own


def test_all_tracers_but_the_compiler_are_tested(script) -> None:
    assert [*TRACERS, "make_fx, inductor"] == list(script.TRACERS)


@pytest.mark.slow
def test_parts_that_are_switched_off_leave_more_operations(script) -> None:
    found = {name: script.measure("toy", name) for name in TRACERS[:4] + TRACERS[5:6]}
    own, in_place, constants, as_traced, make_fx = (found[name].operations for name in found)
    print(f"operations: {own}, without constants {constants}, as traced {as_traced}, make_fx {make_fx}")
    assert own == in_place < constants
    assert own < as_traced < make_fx
    assert {line.digest for line in found.values()} == {found["recorder"].digest}


def test_the_table_compares_with_the_recorder(script) -> None:
    line, study = script.Line, script.StudyLine
    lines = [
        line("toy", "recorder", 0.4, 0.2, 10, 100.0, 2_000_000, "a", 1.0),
        line("toy", "make_fx", 2.0, 1.0, 30, 150.0, 4_000_000, "b", 3.0),
    ]
    text = script.markdown({"toy": "A toy"}, lines, [study("recorder", 9.0, 5_000_000, 2.0)], {"toy, x": "no"})
    assert "| recorder | 10 | 0.40 | 0.20 | 100 | 1.00 | 2 | yes |" in text
    assert "| make_fx | 30 | 2.00 | 1.00 | 150 | 1.50 | 4 | no |" in text
    assert "| recorder | 9.0 | 5 |" in text
    assert "- toy, x fails: no" in text
    assert "load of the machine 1.0 to 3.0" in text
