"""Fixtures for tests of study files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import spec
from bench.spec import StudySpec


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file and return its path."""

    def write(text: str, name: str = "study.toml") -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def study(write: Callable[..., Path]) -> Callable[..., StudySpec]:
    """Write a study file and return the study."""

    def study(text: str, profile: str = spec.PAPER) -> StudySpec:
        return spec.read(write(text), profile)

    return study
