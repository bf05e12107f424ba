"""Cached files: an intact one answers its own question, a damaged one none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import files

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(question=st.text("0123456789abcdef", min_size=64, max_size=64), answer=JSON)
def test_an_intact_file_returns_question_and_answer(question: str, answer: Any):
    assert files.decoded(files.encoded(question, answer)) == (question, answer)


@given(answer=JSON, position=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_changed_byte_is_found(answer: Any, position: int, flip: int):
    content = bytearray(files.encoded("0" * 64, answer))
    content[position % len(content)] ^= flip
    assert files.decoded(bytes(content)) == ("", None)


@given(answer=JSON, end=st.integers(0, 10**6), tail=st.binary(min_size=1, max_size=9))
def test_a_shorter_or_longer_file_is_found(answer: Any, end: int, tail: bytes):
    content = files.encoded("0" * 64, answer)
    assert files.decoded(content[: end % len(content)]) == ("", None)
    assert files.decoded(content + tail) == ("", None)


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(content: bytes):
    assert files.decoded(content) == ("", None)


@given(kept=st.dictionaries(st.text(), JSON, max_size=3), asked=st.dictionaries(st.text(), JSON, max_size=3))
@settings(max_examples=50)
def test_an_answer_is_found_for_its_own_question_only(kept: dict[str, Any], asked: dict[str, Any]):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", folder)
        files.remember("answers", kept, "kept")
        expected = "kept" if files.digest(kept) == files.digest(asked) else None
        assert files.recall("answers", asked) == expected
        # The file of one question in the place of another's.
        (file,) = Path(folder).glob("answers/*")
        file.rename(file.with_name(f"{files.digest(asked)[:16]}.json"))
        assert files.recall("answers", asked) == expected


def test_a_cache_that_cannot_be_used_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    files.remember("answers", {}, 1)
    assert files.recall("answers", {}) is None
