"""Fixtures and rules that all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

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
