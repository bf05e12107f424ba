"""Failures that affect a part of a sweep or report only: damaged records and snapshots, folders without permission."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.cli import main
from bench.cli.progress import Count
from bench.sweep import runner
from bench.sweep.executors.base import BatchResult, attempt
from bench.sweep.runner import FailedError, Runner
from bench.sweep.store import Store
from bench.train.snapshots import Snapshot
from tests import toy_experiments
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
    """Snapshots are larger than the limit on the size of files; records and compiled kernels are smaller."""
    study, whole, full = tmp_path / "study.toml", tmp_path / "whole", tmp_path / "full"
    study.write_text(STUDY.replace("hidden = 16", "hidden = 2000").replace("rounds = 24", "rounds = 2"))
    subprocess.run(command(whole, study), check=True, capture_output=True)
    size = 200_000
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
    main = "from bench.cli.main import main; main()"
    options = [*command(full, study)[1:-1], "--progress", "lines"]
    done = subprocess.run([sys.executable, "-c", limit + main, *options], check=True, capture_output=True, text=True)
    notes = [line for line in done.stderr.splitlines() if "note:" in line]
    print(f"\n15.4: limit {size} bytes: {notes}")
    assert len(notes) == 1
    assert "runs/snapshots: snapshots cannot be written (File too large); training continues without them" in notes[0]
    records = [{file.name: file.read_bytes() for file in Store(each / "runs").files()} for each in (whole, full)]
    assert records[0] == records[1]


@pytest.mark.parametrize("option", ["--out", "--store"])
def test_15_4_a_folder_that_cannot_be_written_is_one_line_before_training(silobench, tmp_path, monkeypatch, option):
    monkeypatch.setattr("bench.train.engine.run", None)  # nothing is trained
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "file").touch()
    status, out, err = silobench("sweep", "mine.toml", "--quiet", option, "file/folder")
    assert (status, out) == (2, "")
    assert err == (f"error: file/folder: cannot be written ({tmp_path}/file is not a folder); "
                   "fix this or name another folder\n")  # fmt: skip
    (tmp_path / "locked").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: "locked" not in str(place) and access(place, mode))
    status, _, err = silobench("sweep", "mine.toml", "--quiet", option, "locked/new")
    assert status == 2
    assert err.startswith(f"error: locked/new: cannot be written (no permission to write to {tmp_path / 'locked'}); ")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "locked", "mine.toml"]


def test_15_4_a_full_disk_for_tables_is_one_line_and_keeps_the_records(silobench, tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        if "/tables/" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "mine.toml").write_text(MINE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        status, _, err = silobench("sweep", "mine.toml", "--quiet")
    assert status == 2
    assert err.startswith("error: results/tables/mine.md: No space left on device; ")
    assert err.count("\n") == 1
    assert list((tmp_path / "results/tables").iterdir()) == []
    monkeypatch.setattr("bench.train.engine.run", None)  # nothing is trained again
    assert silobench("sweep", "mine.toml", "--quiet")[0] == 0


@pytest.mark.parametrize("option", ["--out", "--site"])
def test_15_4_a_report_folder_that_cannot_be_written_is_one_line(silobench, tmp_path, option):
    (tmp_path / "file").touch()
    status, out, err = silobench("report", option, "file/folder")
    assert (status, out) == (2, "")
    assert err == (f"error: file/folder: cannot be written ({tmp_path}/file is not a folder); "
                   "fix this or name another folder\n")  # fmt: skip


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


# Damaged records --------------------------------------------------------------------------------------------------


def show(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Hide all experiments but those in the folder."""
    for module in ("bench.spec.experiments", "bench.rebuild.exhibits", "bench.report.site.pages"):
        patch.setattr(f"{module}.folder", lambda kind: folder / "experiments")


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> Path:
    """Reproduce two studies on the digits and their joint table, and make a report; return the folder."""
    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        place = toy_experiments.install(folder, patch)
        (place / "one.toml").write_text(toy_experiments.STUDY.format(name="one", lr=0.1))  # without figures
        show(folder, patch)
        patch.chdir(folder)
        for arguments in (["reproduce-table", "digits/both", "--profile", "short", "--quiet"], ["report"]):
            patch.setattr(sys, "argv", ["silobench", *arguments])
            with pytest.raises(SystemExit) as end:
                main.main()
            assert not end.value.code
    return folder


@pytest.fixture
def digits(reported, tmp_path, monkeypatch) -> Path:
    """Return a copy of the results, whose studies are those of ``reported``."""
    show(reported, monkeypatch)
    shutil.copytree(reported / "results", tmp_path / "results")
    return tmp_path / "results"


def spoil(results: Path, *words: bytes) -> Path:
    """Damage the file of records with these words; return it."""
    file = next(file for file in Store(results / "runs").files() if all(word in file.read_bytes() for word in words))
    file.write_bytes(file.read_bytes().replace(b'"status":"finished"', b'"status":"finishes"', 1))
    return file.relative_to(results.parent)


def files(results: Path) -> dict[str, bytes]:
    """Return the tables, figures and pages by their path."""
    places = (results / "tables", results / "report")
    return {str(file.relative_to(results)): file.read_bytes() for each in places for file in sorted(each.rglob("*.*"))}


LOCAL_TWO = b'"hyperparameters":{"lr":0.2}', b'"name":"local"'  # the run behind digits/two only


def test_15_4_a_report_with_a_damaged_record_shows_the_rest_and_keeps_better_files(digits, silobench):
    before, bad = files(digits), spoil(digits, *LOCAL_TWO)
    (digits / "tables/digits/one-short.csv").unlink()
    status, out, err = silobench("report")
    lines = err.splitlines()
    print("\n15.4: " + "\n".join(lines))
    assert status == 2
    assert lines[-1].startswith(f"error: {bad}, line 1: damaged, its sha256 is ")
    kept = [line.partition(":")[0] for line in lines if ": kept, it shows results that are now missing" in line]
    assert kept == ["results/report/digits.html", "results/report/index.html"]
    assert "results/tables/digits/one-short.csv" in out.splitlines()
    assert files(digits) == before


def test_15_4_deleting_a_page_forces_a_new_one(digits, silobench):
    spoil(digits, *LOCAL_TWO)
    (digits / "report/digits.html").unlink()
    status, out, _ = silobench("report")
    assert status == 2
    assert "results/report/digits.html" in out.splitlines()
    page = (digits / "report/digits.html").read_text()
    assert "Digits, one" in page


def test_15_4_a_table_without_a_record_of_its_search_is_no_substitute(silobench, tmp_path, monkeypatch):
    """Without the run of the best setting another setting would be chosen: the files are kept."""
    (tmp_path / "mine.toml").write_text(MINE.replace("fixed.lr = 0.1", "grid.lr = [0.001, 0.1]"))
    monkeypatch.setattr("bench.sweep.plan.MAX_BATCH_RUNS", 2)  # a file for each setting
    assert silobench("sweep", "mine.toml", "--quiet")[0] == 0
    assert silobench("report")[0] == 0
    results = tmp_path / "results"
    before = files(results)
    spoil(results, b'{"lr":0.1}')
    status, _, err = silobench("report")
    assert status == 2
    assert f"{tmp_path / 'mine.toml'}: runs of mine are missing, they may be in a damaged file" in err
    assert "results/tables/mine.csv: kept, it shows results that are now missing; delete it to replace it" in err
    assert files(results) == before


def test_15_4_with_damage_complete_tables_are_reproduced_and_others_refused(digits, silobench, monkeypatch):
    monkeypatch.setattr("bench.train.engine.run", None)  # nothing is trained
    before, bad = files(digits), spoil(digits, *LOCAL_TWO)
    short = ("--profile", "short", "--quiet")
    for table, shown in (("digits/one", True), ("digits/two", False), ("digits/both", False)):
        status, out, err = silobench("reproduce-table", table, *short)
        assert status == 2
        assert err.startswith(f"error: {bad}, line 1: damaged, ")
        assert err.count("\n") == 1
        assert ("results/tables/digits/one-short.md" in out) == shown
    status, out, err = silobench("reproduce-paper", "digits", *short)
    assert status == 2
    assert "results/tables/digits/one-short.md" in out
    assert [line.partition(":")[0] for line in err.splitlines() if "left out, " in line][:2] == [
        "digits/two", "digits/both",
    ]  # fmt: skip
    assert {name: content for name, content in files(digits).items() if name in before} == before


@pytest.mark.slow
def test_15_4_a_study_that_cannot_be_read_is_left_out_of_the_report(digits, silobench, tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    assert silobench("sweep", "mine.toml", "--quiet")[0] == 0
    assert silobench("report")[0] == 0
    before = files(digits)
    (tmp_path / "mine.toml").write_text("title = [")
    status, out, err = silobench("report")
    assert status == 2
    assert f"{tmp_path / 'mine.toml'}: left out, " in err
    assert err.splitlines()[-1] == (
        "error: some studies are left out for the reasons above; all others are in the report"
    )
    assert "results/report/digits.html" in out.splitlines()
    same = [name for name, content in files(digits).items() if content == before[name]]
    assert before.keys() - same <= {"report/digits.html"}  # whose list of pages may have another order
    assert (digits / "report/digits.html").read_text().count('<li><a href="mine.html">mine</a></li>') == 1


@pytest.mark.slow
def test_15_4_a_published_report_with_a_damaged_record_keeps_the_committed_tables(silobench, tmp_path, monkeypatch):
    published = Path(__file__).parents[2] / "results" / "published"
    mine = tmp_path / "results" / "published" / "player" / "cifar10-jpeg"
    shutil.copytree(published / "player" / "cifar10-jpeg", mine)
    assert silobench("report", "--published")[0] == 0
    results = tmp_path / "results"
    before = {str(file): file.read_bytes() for file in results.rglob("*.*") if file.suffix != ".jsonl"}
    file = next((mine / "records").iterdir())
    file.write_bytes(file.read_bytes()[:-50])
    status, _, err = silobench("report", "--published")
    assert status == 2
    assert f"error: {file.relative_to(tmp_path)}, line " in err
    assert {str(file): file.read_bytes() for file in results.rglob("*.*") if file.suffix != ".jsonl"} == before


@pytest.mark.slow
def test_15_4_figures_of_missing_runs_are_kept(silobench, tmp_path, monkeypatch):
    toy_experiments.install(tmp_path, monkeypatch)
    show(tmp_path, monkeypatch)
    monkeypatch.setattr("bench.sweep.plan.MAX_BATCH_RUNS", 2)  # a file for each setting
    for figure in ("digits/curves", "digits/relations"):
        assert silobench("reproduce-figure", figure, "--quiet")[0] == 0
    assert silobench("report")[0] == 0
    results = tmp_path / "results"
    before = files(results)
    spoil(results, b'"name":"fedavg"', b'{"lr":1.0}')
    status, out, err = silobench("report")
    kept = [line.partition(":")[0] for line in err.splitlines() if ": kept, " in line]
    print(f"\n15.4: {kept}")
    assert status == 2
    assert {"results/tables/digits/curves.png", "results/report/digits.html"} <= set(kept)
    assert "results/tables/digits/relations.png" in out.splitlines()
    assert {name: content for name, content in files(results).items() if ".pdf" not in name} == {
        name: content for name, content in before.items() if ".pdf" not in name
    }
