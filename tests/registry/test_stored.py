"""The cache of declarations spares importing torch, follows edits, and is rebuilt when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
    monkeypatch.setattr(stored, "_is_as_at_start", lambda file: True)
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


def restored_time(file: Path) -> None:
    before = file.stat()
    file.write_text("changed")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def clock_set_back(file: Path) -> None:
    file.write_text("changed")


@pytest.mark.parametrize("change", [None, Path.touch, restored_time, clock_set_back])
def test_files_changed_after_the_start_have_no_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None] | None
) -> None:
    """Such a file may have been imported before the change."""
    (file := tmp_path / "module.py").write_text("")
    time.sleep(0.05)  # a step of the clock of the file system
    monkeypatch.setattr(stored, "_STARTED", time.time_ns())
    monkeypatch.setattr(stored, "_STARTED_STEADY", time.monotonic_ns())
    time.sleep(0.05)
    if change:
        change(file)
    if change is clock_set_back:
        an_hour = 3600 * 10**9
        monkeypatch.setattr(stored, "_STARTED", stored._STARTED + an_hour)
    assert (stored.hashes([], [file]) is None) == (change is not None)


def test_nothing_is_kept_of_files_without_hashes(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.unlink()
    monkeypatch.setattr(stored, "_is_as_at_start", lambda file: False)
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
    assert not kept.exists()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
