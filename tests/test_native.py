"""Kernels are compiled once, cached by content, and absent without a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import machine, native
from bench.files import cache_folder

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    native._compiled.cache_clear()
    yield tmp_path / "kernel.c"
    native._compiled.cache_clear()


def made() -> list[Path]:
    return sorted((cache_folder() / "native").iterdir())


def test_a_kernel_is_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text(SOURCE)
    assert native.kernels(source).answer() == 42
    (library,) = made()
    before = library.stat().st_mtime_ns
    native._compiled.cache_clear()  # as in another process
    assert native.kernels(source).answer() == 42
    assert (made(), library.stat().st_mtime_ns) == ([library], before)


def test_another_source_is_another_kernel(source: Path) -> None:
    source.write_text(SOURCE)
    native.kernels(source)
    source.write_text(SOURCE.replace("42", "43"))
    native._compiled.cache_clear()
    assert native.kernels(source).answer() == 43
    assert len(made()) == 2


def test_without_a_compiler_there_is_none(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text(SOURCE)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native.kernels(source) is None
    assert not (cache_folder() / "native").exists()


def test_a_failing_compiler_is_reported_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text(SOURCE)
    monkeypatch.setenv("CC", "false")
    with pytest.warns(UserWarning, match=r"^false cannot compile kernel\.c, torch is used, slower: .*exit status"):
        assert native.kernels(source) is None
    assert native.kernels(source) is None  # without a second warning


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler, results may differ in the last digits and costs are higher."""
    assert machine.name().endswith(" cores")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert machine.name().endswith(" cores, no C compiler")


def test_what_does_not_compile_leaves_nothing(source: Path) -> None:
    source.write_text("int answer(void) { return forty_two; }\n")
    with pytest.warns(UserWarning, match=r"kernel\.c: In function|kernel\.c:1"):
        assert native.kernels(source) is None
    assert not (cache_folder() / "native").exists()


def test_kernels_can_be_switched_off(source: Path) -> None:
    source.write_text(SOURCE)
    with native.without_kernels():
        assert native.kernels(source) is None
    assert native.kernels(source).answer() == 42


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its memory")
def test_memory_is_kept_and_used_again() -> None:
    """A process reuses freed memory in pieces of a local step's size."""
    again = """
import resource, torch
from bench.native import keep_freed_memory
keep_freed_memory()
def step():
    pieces = [torch.ones(10**6) for _ in range(20)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""
    found = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 1000  # a step uses 19,531 pages of 4 kB
