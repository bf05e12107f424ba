"""Fixtures shared by tests of several folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from bench.cli import main

# How long an example takes says how busy the machine is.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Every test draws the same numbers wherever, with whatever and however often it is run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """The folder of real raw data files; without it a test that asks for it is skipped, and fails under CI."""
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("this test reads real data: set BENCH_DATA to the folder of raw files (see datasets/*.md)")
    return Path(folder)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command ``silobench``; returns exit status, standard output and standard error."""

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["silobench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return command


@pytest.fixture
def silobench(command, tmp_path, monkeypatch):
    """As ``command``, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command
