"""Kernels that cannot be used are computed by torch, and the reason is recorded."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import machine, native
from bench.native.kernel import Comparison, Kernel, without_kernels

SOURCE = "int answer(void) { return 42; }\n"


def compare(functions: Any) -> Iterator[Comparison]:
    yield Comparison(torch.tensor(functions.answer()), torch.tensor(42), torch.tensor(0))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "computed_by_torch", {})
    source = tmp_path / "answer.c"
    source.write_text(SOURCE)
    return Kernel(source, compare)


def test_kernels_can_be_switched_off(kernel: Kernel) -> None:
    with without_kernels():
        assert (kernel.functions, kernel.in_use) == (None, "torch (kernels are switched off)")
    assert kernel.functions.answer() == 42
    assert len(kernel.in_use) == 16
    assert machine.description() == machine.name()


@pytest.mark.parametrize(
    ("compiler", "source", "reason", "warning"),
    [
        ("no-such-compiler -O2", SOURCE, "no compiler", None),  # a compiler is optional
        ("false", SOURCE, "the compiler fails", "false: exit status 1"),
        ("/", SOURCE, "the compiler fails", "/: Permission denied"),
        ("cc", "int answer(void) { return forty_two; }", "the compiler fails", "cc: .*answer.c:1:.* error: .*"),
        ("cc -c", SOURCE, "the library cannot be loaded", ".*"),
        ("cc", "int question(void) { return 42; }", "the library cannot be loaded", ".*answer.*"),
        ("cc", SOURCE.replace("42", "43"), "the library differs from the definition", "compiled by cc"),
    ],
)
def test_the_reason_is_recorded_and_warned_about_once(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    compiler: str, source: str, reason: str, warning: str | None,
) -> None:  # fmt: skip
    monkeypatch.setenv("CC", compiler)
    kernel.source.write_text(source)
    with caplog.at_level(logging.WARNING):
        assert kernel.functions is kernel.functions is None
    assert kernel.in_use == f"torch ({reason})"
    assert machine.description() == f"{machine.name()}, answer: torch ({reason})"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (warning is not None)
    for line in lines:
        assert re.fullmatch(rf"kernel answer: {reason} \({warning}\); torch computes it, slower", line)


@pytest.mark.parametrize(
    ("found", "exact", "agrees"),
    [
        ([1.0, torch.nan, torch.inf], [1.1, torch.nan, torch.inf], True),
        ([1.0], [1.3], False),
        ([1.0], [torch.nan], False),
        ([torch.nan], [1.0], False),
        ([-torch.inf], [torch.inf], False),
        ([torch.inf], [1.0], False),
    ],
)
def test_agreement(found: list[float], exact: list[float], agrees: bool) -> None:
    assert Comparison(torch.tensor(found), torch.tensor(exact), torch.tensor(0.2)).agrees is agrees


def test_the_comparison_is_not_in_a_mode_of_the_caller(kernel: Kernel) -> None:
    seen: list[bool] = []

    def compare(functions: Any) -> Iterator[Comparison]:
        seen.append(torch.is_inference_mode_enabled())
        return iter(())

    kernel.compare = compare
    with torch.inference_mode():
        assert kernel.functions.answer() == 42
    assert seen == [False]


def test_all_kernels_say_what_is_in_use() -> None:
    found = native.in_use()
    assert sorted(found) == ["adamw", "token_block"]
    assert all(len(each) == 16 and int(each, 16) for each in found.values())
