"""Failures that affect a part of a sweep or report only: damaged records and snapshots, folders without permission."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
import torch

from bench.cli.progress import Count
from bench.sweep import runner
from bench.sweep.executors.base import BatchResult, attempt
from bench.sweep.runner import FailedError, Runner
from bench.sweep.store import Store
from bench.train.snapshots import Snapshot
from tests.reliability.test_real_sweeps import STUDY, command
from tests.reliability.test_trust import damages
from tests.sweep.scripted import Scripted, Stage, run_batch, trained

MINE = """
title = "My study"
seeds = [1, 2]
data = "digits"
[budget]
rounds = 1
local_epochs = 1
batch_size = "full"
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
"""


def test_15_4_no_damage_to_a_snapshot_ends_a_run_batch(tmp_path, caplog):
    snapshot, tried, reported = Snapshot(tmp_path / "state", "a run batch"), 0, 0
    snapshot.write({"w": torch.arange(40.0)}, {"round": 3})
    for bad in damages(snapshot.file.read_bytes(), random.Random(6)):
        snapshot.file.write_bytes(bad)
        tried += 1
        assert snapshot.read() is None
        reported += "state: damaged, its sha256 is" in caplog.records[-1].getMessage()
        assert not snapshot.file.exists()
    print(f"\n15.4: {reported} of {tried} damaged snapshots set aside and reported")
    assert reported == tried


@pytest.mark.slow
def test_15_4_a_full_disk_for_snapshots_only_is_one_note_and_changes_no_record(tmp_path):
    """Snapshots are larger than the limit on the size of files, records are smaller."""
    study, whole, full = tmp_path / "study.toml", tmp_path / "whole", tmp_path / "full"
    study.write_text(STUDY.replace("hidden = 16", "hidden = 200").replace("rounds = 24", "rounds = 2"))
    subprocess.run(command(whole, study), check=True, capture_output=True)
    largest = max(file.stat().st_size for file in whole.rglob("*") if file.is_file())
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({2 * largest}, {2 * largest})); "
    main = "from bench.cli.main import main; main()"
    options = [*command(full, study)[1:-1], "--progress", "lines"]
    done = subprocess.run([sys.executable, "-c", limit + main, *options], check=True, capture_output=True, text=True)
    notes = [line for line in done.stderr.splitlines() if "note:" in line]
    print(f"\n15.4: limit {2 * largest} bytes: {notes}")
    assert len(notes) == 1
    assert "runs/snapshots: snapshots cannot be written (File too large); training continues without them" in notes[0]
    records = [{file.name: file.read_bytes() for file in Store(each / "runs").files()} for each in (whole, full)]
    assert records[0] == records[1]


@pytest.mark.parametrize("option", ["--out", "--store"])
def test_15_4_a_folder_that_cannot_be_written_is_one_line_before_training(silobench, tmp_path, monkeypatch, option):
    monkeypatch.setattr("bench.train.engine.run", None)  # nothing is trained
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "file").touch()
    for place in ("file", "file/folder"):
        status, out, err = silobench("sweep", "mine.toml", "--quiet", option, place)
        assert (status, out) == (2, "")
        absolute = f"{tmp_path}/" * (place != "file")
        assert err == (f"error: {place}: cannot be written ({absolute}file is not a folder); "
                       "fix this or name another folder\n")  # fmt: skip
    (tmp_path / "locked").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: "locked" not in str(place) and access(place, mode))
    status, _, err = silobench("sweep", "mine.toml", "--quiet", option, "locked/new")
    assert status == 2
    assert err.startswith(f"error: locked/new: cannot be written (no permission to write to {tmp_path / 'locked'}); ")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "locked", "mine.toml"]


@pytest.mark.parametrize("option", ["--out", "--site"])
def test_15_4_a_report_folder_that_cannot_be_written_is_one_line(silobench, tmp_path, option):
    (tmp_path / "file").touch()
    status, out, err = silobench("report", option, "file")
    assert (status, out) == (2, "")
    assert err == "error: file: cannot be written (file is not a folder); fix this or name another folder\n"


def test_15_4_failed_runs_are_counted_once_when_run_batches_are_split(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "POLL", 0.02)
    planned = [run_batch(1, 2, 3, rates=(rate, 3 * rate)) for rate in (0.01, 0.1, 0.5, 1.0)]
    events: list[dict] = []

    def end(each):
        bad = any(run.seed > 1 for run in each.runs)
        return BatchResult(each, error="out of memory", lost=True) if bad else trained(each)

    with pytest.raises(FailedError) as error, Runner(Scripted(end), events.append) as running:
        running.train(planned, Store(tmp_path / "runs"))
    parts = sum(event["event"] == "failed" for event in events)
    print(f"\n15.4: {error.value} ({parts} parts of {len(planned)} run batches)")
    assert str(error.value).startswith("16 of 24 runs failed, all others are recorded; the first failure (")
    assert len(Store(tmp_path / "runs").records()) == 8
    count = Count()
    for event in events:
        count(event)
    assert (count.runs, count.finished, count.failed) == (24, 8, 16)


def test_15_4_halves_of_a_run_batch_are_recorded_in_other_files_with_equal_lines(tmp_path):
    """The worker of the whole run batch dies twice, as docs/running-sweeps.md describes."""
    whole, site = run_batch(1, 2, 3, rates=(0.01, 0.1)), Stage.at(tmp_path / "stage")

    def end(each):
        dies = store.path.name == "halved" and len(each.runs) == len(whole.runs)
        return BatchResult(each, error="a worker died", lost=True) if dies else attempt(each, site, lambda *told: None)

    lines: dict[str, list[list[bytes]]] = {}
    every: dict[str, list[bytes]] = {}
    for name in ("planned", "halved"):
        store = Store(tmp_path / name)
        with Runner(Scripted(end)) as running:
            running.train([whole], store)
        lines[name] = [file.read_bytes().splitlines() for file in store.files()]
        every[name] = sorted(line for file in lines[name] for line in file)
    print(
        f"\n15.4: {[len(each) for each in lines['halved']]} lines instead of {[len(each) for each in lines['planned']]}"
    )
    assert [len(each) for each in lines["halved"]] == [3, 3]
    assert every["halved"] == every["planned"]
