"""Records name the environment of training, and tables and comparisons name it where it differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.environment import environment
from bench.sweep.store import FORMAT, Store
from bench.train import driver
from tests.train.test_snapshots import _interrupt_round_two, _InterruptionError, _run

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published"
OWN = torch.backends.cpu.get_cpu_capability()
OTHER = "AVX2" if OWN == "AVX512" else "DEFAULT"  # what ATEN_CPU_CAPABILITY can choose here
STUDY = """
title = "Two machines"
seeds = {seeds}
[data]
name = "digits"
[budget]
rounds = 1
local_steps = 2
batch_size = 8
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
"""


def sweep(folder: Path, seeds: list[int], *options: str, **variables: str) -> dict[str, dict]:
    """Train a small study in another process into ``folder``/runs; return all records of the store."""
    (folder / "study.toml").write_text(STUDY.format(seeds=seeds))
    command = [sys.executable, "-m", "bench", "sweep", "study.toml", "--store", "runs", "--out", "tables", *options]
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    subprocess.run(command, cwd=folder, env=settings, check=True, capture_output=True)
    return Store(folder / "runs").records()


@pytest.mark.slow
@pytest.mark.skipif(OTHER == OWN, reason="this processor has one capability")
def test_15_2_records_name_their_capability_and_a_mixed_table_both(tmp_path):
    other = sweep(tmp_path, [1], ATEN_CPU_CAPABILITY=OTHER.lower())
    assert [each["capability"] for record in other.values() for each in record["environments"]] == [OTHER]
    assert "Environments" not in (tmp_path / "tables/study.md").read_text()
    both = sweep(tmp_path, [1, 2])
    named = sorted(record["environments"][0]["capability"] for record in both.values())
    table = " ".join((tmp_path / "tables/study.md").read_text().split())
    print(f"\n15.2: capabilities of two runs of one table: {', '.join(named)}")
    assert named == sorted([OTHER, OWN])
    assert f"capability {OTHER} (1 run)" in table
    assert f"capability {OWN} (1 run)" in table


@pytest.mark.slow
def test_15_2_records_are_equal_for_any_number_of_workers(tmp_path):
    """Facts are equal in every process of a machine."""
    contents = []
    for name, options in (("one", ()), ("two", ("--workers", "2"))):
        (tmp_path / name).mkdir()
        sweep(tmp_path / name, [1, 2], *options)
        contents.append([file.read_bytes() for file in Store(tmp_path / name / "runs").files()])
    assert contents[0] == contents[1]
    assert json.loads(contents[0][0].splitlines()[0])["environments"] == [environment()]


def test_15_2_a_run_batch_resumed_on_another_machine_names_both(tmp_path, monkeypatch):
    here = environment()
    assert _run("fedavg", "stack").environments == [here]
    _interrupt_round_two(monkeypatch)
    with pytest.raises(_InterruptionError):
        _run("fedavg", "stack", tmp_path)
    elsewhere = here | {"capability": "another"}
    monkeypatch.setattr(driver, "environment", lambda: elsewhere)
    assert _run("fedavg", "stack", tmp_path).environments == [here, elsewhere]


def test_15_2_a_run_batch_resumed_on_the_same_machine_names_it_once(tmp_path, monkeypatch):
    _interrupt_round_two(monkeypatch)
    with pytest.raises(_InterruptionError):
        _run("fedavg", "stack", tmp_path)
    assert _run("fedavg", "stack", tmp_path).environments == [environment()]


def test_15_2_published_records_have_no_environment_and_keep_their_bytes(tmp_path):
    store = Store(PUBLISHED / "fenda")
    before = {file: file.read_bytes() for file in store.files()}
    records = store.records().values()
    assert {record["format"] for record in records} == {FORMAT}
    assert all(record["environments"] == [] for record in records)
    assert {file: file.read_bytes() for file in store.files()} == before


@pytest.mark.slow
def test_15_2_verify_names_both_environments(silobench, tmp_path):
    """Own records are the published ones, as if they had been trained on this machine."""
    theirs = Store(PUBLISHED / "fenda").records().values()
    mine = [record | {"environments": [environment()]} for record in theirs]
    for record in mine:
        del record["sha256"]
    Store(tmp_path / "mine").write(mine, seconds=1)
    status, out, _ = silobench("verify", "fenda/2-heart", "--store", "mine", "--published", PUBLISHED)
    (line,) = [line for line in out.splitlines() if line.startswith("Environments")]
    assert status == 0
    assert line.startswith("Environments: ours BLAS ")
    assert f"capability {OWN}, " in line
    assert line.endswith(". Published: not recorded.")
