"""Reliability with real training: interrupted run batches, damaged snapshots, and the table at the end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.sweep.store import Store

pytestmark = pytest.mark.slow
SILOBENCH = Path(sys.executable).with_name("silobench")
STUDY = """
title = "Cut in the middle"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 24
local_epochs = 1
batch_size = 32
test_every = 8
[methods.scaffold]
model = { name = "mlp", hidden = 16 }
grid.lr = [0.1, 0.5]
fixed.server_lr = 1.0
[methods.apfl]
model = { name = "mlp", hidden = 16 }
grid.lr = [0.1, 0.5]
"""


def command(folder: Path, study: Path) -> list[str]:
    return [str(SILOBENCH), "sweep", str(study), "--store", str(folder / "runs"), "--out", str(folder / "tables"),
            "--snapshot-rounds", "1", "--quiet"]  # fmt: skip


def made(folder: Path) -> dict[str, bytes]:
    """Return the bytes of records and tables by file name."""
    files = [*(folder / "runs" / "records").iterdir(), *(folder / "tables").iterdir()]
    return {file.name: file.read_bytes() for file in sorted(files)}


def test_r1_an_interrupted_run_batch_continues_to_the_same_bytes(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    uncut, cut = tmp_path / "uncut", tmp_path / "cut"
    subprocess.run(command(uncut, study), check=True, capture_output=True)
    used: set[str] = set()
    for _ in range(2):
        with subprocess.Popen(command(cut, study), stdout=subprocess.DEVNULL) as process:
            snapshots = cut / "runs" / "snapshots"
            while process.poll() is None and not used.symmetric_difference(f.name for f in snapshots.glob("*.safe*")):
                time.sleep(0.02)
            time.sleep(0.15)
            process.kill()
        used |= {file.name for file in snapshots.glob("*.safetensors")}
    rounds = len(used)
    subprocess.run(command(cut, study), check=True, capture_output=True)
    print(f"\nR1: killed twice during {rounds} run batches; {len(made(cut))} files have the same bytes")
    assert rounds >= 1
    assert made(cut) == made(uncut)
    assert list((cut / "runs" / "snapshots").glob("*.safetensors")) == []


def test_15_4_a_damaged_snapshot_is_set_aside_and_its_run_batch_starts_again(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    with subprocess.Popen(command(tmp_path, study), stdout=subprocess.DEVNULL) as process:
        snapshots = tmp_path / "runs" / "snapshots"
        while not (files := list(snapshots.glob("*.safetensors"))):
            time.sleep(0.02)
        process.kill()
    content = bytearray(files[0].read_bytes())
    content[len(content) // 2] ^= 1
    files[0].write_bytes(content)
    lines = [*command(tmp_path, study)[:-1], "--progress", "lines"]
    again = subprocess.run(lines, check=True, capture_output=True, text=True)
    (note,) = [line for line in again.stderr.splitlines() if "note:" in line]
    print(f"\n15.4: {note}")
    assert f"{files[0]}: damaged, " in note
    assert f"renamed to {files[0].name}.damaged, its runs start again" in note
    assert len(Store(tmp_path / "runs").records()) == 8
    assert [file.name for file in snapshots.iterdir()] == [f"{files[0].name}.damaged"]
