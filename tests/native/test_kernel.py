"""Kernels that cannot be used are computed by torch, and the reason is recorded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bench import machine, native
from bench.native.kernel import Kernel, without_kernels


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "computed_by_torch", {})
    source = tmp_path / "answer.c"
    source.write_text("int answer(void) { return 42; }\n")
    return source


def test_kernels_can_be_switched_off(source: Path) -> None:
    kernel = Kernel(source)
    with without_kernels():
        assert (kernel.functions, kernel.in_use) == (None, "torch (kernels are switched off)")
    assert kernel.functions.answer() == 42
    assert len(kernel.in_use) == 16


def test_without_a_compiler_torch_is_used(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A compiler is optional, so that its absence is no warning."""
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    kernel = Kernel(source)
    assert kernel.functions is None
    assert kernel.in_use == "torch (no compiler no-such-compiler)"
    assert machine.description() == f"{machine.name()}, answer: torch (no compiler no-such-compiler)"
    assert caplog.records == []


def test_a_failing_compiler_is_reported_once(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "false")
    kernel = Kernel(source)
    with caplog.at_level(logging.WARNING):
        assert kernel.functions is kernel.functions is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("kernel answer: false cannot compile it: ")
    assert line.endswith("; torch computes it, slower")


def test_all_kernels_say_what_is_in_use() -> None:
    assert sorted(native.in_use()) == ["adamw", "token_block"]
