"""docs/running-sweeps.md: its study can be read, and its commands can be parsed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from bench import spec
from bench.cli import main
from bench.sweep.study import run_batches

TEXT = (Path(__file__).parents[2] / "docs" / "running-sweeps.md").read_text()


def test_its_study_has_the_stated_number_of_runs(tmp_path):
    study, *_ = re.findall(r"^```toml\n(.+?)^```", TEXT, re.M | re.S)  # the others are parts of a study
    (tmp_path / "study.toml").write_text(study)
    asked, total = run_batches(spec.read(tmp_path / "study.toml"), {})
    (said,) = re.findall(r"That is (\d+) \+ (\d+) \+ (\d+) runs", TEXT)
    assert sum(len(run_batch.runs) for run_batch in asked) == total == sum(map(int, said))


@pytest.mark.parametrize("line", [line.strip() for line in TEXT.splitlines() if line.startswith("    silobench ")])
def test_its_commands_can_be_parsed(line):
    name, *arguments = line.partition("#")[0].split()[1:]
    group: Any = typer.main.get_command(main.app)
    command = group.commands[name]
    command.make_context(name, arguments)
