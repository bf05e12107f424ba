"""Fixtures shared by tests of several folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from bench import registry
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


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Makes the packages in a folder installed ones, until the test ends."""
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
    """Installs files under the names of entry points of ``silobench.<kind>``."""

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
