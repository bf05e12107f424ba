"""Fixtures and rules that all tests share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from bench import registry
from bench.cli import main

# Fixtures that need raw data, a program of the system (Chromium, LaTeX), worker processes or a Ray cluster.
SLOW_FIXTURES = {"bench_data", "program", "processes", "cluster"}

# A deadline would measure how busy the machine is.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with a slow fixture as slow."""
    for item in items:
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Seed torch, so that a test draws the same numbers whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """Return the folder of raw data; without it, skip the test, or fail under CI."""
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("this test reads raw data: set BENCH_DATA to their folder (see datasets/*.md)")
    return Path(folder)


@pytest.fixture(scope="session")
def program():
    """Return the path of a system program; without it the test is skipped, or fails in CI (.ci/run installs it)."""

    def find(name):
        place = shutil.which(name)
        if place is None:
            refuse = pytest.fail if os.environ.get("CI") else pytest.skip
            refuse(f"this test needs the program {name}, which is not on the path; install it with apt-get")
        return place

    return find


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command ``silobench``; return exit status, standard output and standard error."""

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["silobench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return command


@pytest.fixture
def silobench(command, tmp_path, monkeypatch):
    """Run the command ``silobench`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Return a function that makes the packages in a folder importable as installed ones until the test ends."""
    folders: list[Path] = []

    def installed(site: Path) -> None:
        folders.append(site)
        monkeypatch.syspath_prepend(site)
        registry.catalogue.cache_clear()

    yield installed
    for name, module in list(sys.modules.items()):
        if any(folder in Path(getattr(module, "__file__", None) or "/").parents for folder in folders):
            del sys.modules[name]
    monkeypatch.undo()
    registry.catalogue.cache_clear()


@pytest.fixture
def install(tmp_path: Path, installed) -> Callable[[str, dict[str, str], dict[str, str]], None]:
    """Return a function that installs files with entry points of ``silobench.<kind>``."""

    def install(kind: str, points: dict[str, str], files: dict[str, str]) -> None:
        site = tmp_path / "site"
        metadata = site / "someones-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someones\nVersion: 1.0\n")
        lines = "".join(f"{name} = {module}\n" for name, module in points.items())
        (metadata / "entry_points.txt").write_text(f"[silobench.{kind}]\n{lines}")
        for name, text in files.items():
            file = site / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        installed(site)

    return install
