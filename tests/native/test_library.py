"""Libraries are compiled once, cached by content, and absent without a compiler."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.files import cache_folder
from bench.native.library import NoCompilerError, UnusableError, load

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "kernel.c"
    source.write_text(SOURCE)
    return source


def answer(source: Path) -> int:
    functions, _ = load(source)
    return functions.answer()


def made() -> list[Path]:
    return sorted((cache_folder() / "native").glob("*"))


def test_a_library_is_compiled_once(source: Path) -> None:
    assert answer(source) == 42
    (library,) = made()
    before = library.stat().st_mtime_ns
    assert answer(source) == 42
    assert (made(), library.stat().st_mtime_ns) == ([library], before)


def test_another_source_is_another_library(source: Path) -> None:
    _, first = load(source)
    source.write_text(SOURCE.replace("42", "43"))
    _, second = load(source)
    assert answer(source) == 43
    assert first != second
    assert len(made()) == 2


def test_the_checksum_is_the_same_in_another_cache(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = load(source)
    monkeypatch.setenv("BENCH_CACHE", str(source.parent / "another cache"))
    _, second = load(source)
    assert first == second


def test_without_a_compiler_there_is_none(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NoCompilerError, match=r"^no compiler \(no-such-compiler\)$"):
        load(source)
    assert made() == []


def test_a_blank_compiler_is_the_default(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "  ")
    assert answer(source) == 42


def test_a_failing_compiler_is_an_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(UnusableError, match=r"^the compiler fails \(false: exit status 1\)$"):
        load(source)


def test_what_does_not_compile_leaves_nothing(source: Path) -> None:
    source.write_text("int answer(void) { return forty_two; }\n")
    with pytest.raises(UnusableError, match=r"^the compiler fails \(cc: .*kernel\.c:1:.* error: "):
        load(source)
    assert made() == []


def test_a_pipe_in_the_place_of_a_library_is_replaced(source: Path) -> None:
    load(source)
    (library,) = made()
    library.unlink()
    os.mkfifo(library)
    assert answer(source) == 42
    assert library.is_file()


@pytest.mark.parametrize(
    ("put", "reason"),
    [(Path.mkdir, "Is a directory"), (lambda place: place.symlink_to("/dev/null"), "symbolic links")],
)
def test_a_folder_or_link_in_the_place_of_a_library_is_named(
    source: Path, put: Callable[[Path], None], reason: str
) -> None:
    load(source)
    (library,) = made()
    library.unlink()
    put(library)
    with pytest.raises(UnusableError, match=rf"^the library cannot be loaded \({library}: .*{reason}\)$"):
        load(source)
