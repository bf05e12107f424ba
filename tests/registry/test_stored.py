"""The cache of declarations spares importing torch, follows edits, and is rebuilt when damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import registry
from bench.registry import declarations, stored

ALGORITHMS = registry.catalogue("algorithms")
LIST = (
    "import json, sys; from bench import registry; "
    "found = {name: each.default for name, each in registry.hyperparameters('child').items()}; "
    "print(json.dumps([found, 'torch' in sys.modules]))"
)
CHILD = '''
from dataclasses import dataclass

from bench.registry import register
from someone.base import Base


@register("child")
@dataclass(frozen=True)
class Child(Base):
    """Somebody's algorithm."""
'''
BASE = """
from dataclasses import dataclass
from typing import Any

from bench.algorithms.base import Algorithm, searchable
from someone.constants import STRENGTH


@dataclass(frozen=True)
class Base(Algorithm):
    strength: Any = searchable(STRENGTH, ge=0)
"""


@pytest.mark.slow
def test_the_cache_spares_torch_and_follows_edits_of_base_and_constants(
    install: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"someone/child.py": CHILD, "someone/base.py": BASE, "someone/constants.py": "STRENGTH = 0.5\n"}
    install("algorithms", {"child": "someone.child"}, files)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{Path(registry.__file__).parents[2]}")

    def found() -> list[Any]:
        run = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True)
        return list(json.loads(run.stdout))

    assert [found(), found()] == [[{"strength": 0.5}, True], [{"strength": 0.5}, False]]
    (tmp_path / "site/someone/constants.py").write_text("STRENGTH = 2.0\n")
    assert found() == [{"strength": 2.0}, True]
    (tmp_path / "site/someone/base.py").write_text(BASE.replace("strength:", "force:"))
    assert found() == [{"force": 2.0}, True]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache file of the algorithms, just written."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(stored, "_STARTED", float("inf"))
    declarations._of_kind.cache_clear()
    registry.flags("fedavg")
    (file,) = (tmp_path / "registry").iterdir()
    return file


def test_what_is_read_from_the_cache_is_what_the_classes_declare(kept: Path) -> None:
    entries = tuple(ALGORITHMS.values())
    before = {name: registry.declaration("algorithms", name) for name in ALGORITHMS}
    assert stored.read("algorithms", entries) is not None
    declarations._of_kind.cache_clear()
    assert {name: registry.declaration("algorithms", name) for name in ALGORITHMS} == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:100],
        lambda text: "",
        lambda text: "[]",
        lambda text: '{"digest": "", "kept": {}}',
        lambda text: text.replace('"default": 0.1', '"default": 0.2', 1),
    ],
)
def test_a_damaged_cache_is_written_again(kept: Path, damage: Callable[[str], str]) -> None:
    whole = kept.read_text()
    kept.write_text(damage(whole))
    assert stored.read("algorithms", tuple(ALGORITHMS.values())) is None
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
    assert kept.read_text() == whole


def test_a_file_changed_after_the_start_is_not_cached(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.unlink()
    monkeypatch.setattr(stored, "_STARTED", 0.0)
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
    assert not kept.exists()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
