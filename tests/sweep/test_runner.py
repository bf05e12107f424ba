"""The runner: every run batch is trained and recorded once, failures stay local, and it stops cleanly."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace

import pytest

from bench.cli.records_text import of_state
from bench.sweep import lease, runner, training
from bench.sweep.executors.base import BatchResult, attempt
from bench.sweep.runner import FailedError, Runner, StoppedError
from bench.sweep.status import status
from bench.sweep.store import Store
from bench.sweep.training import WorkerSettings
from bench.types import SilobenchError
from tests.sweep.scripted import Scripted, record, run_batch, trained, wait_for

RUN_BATCHES = [run_batch(1, 2), run_batch(3, 4), run_batch(5, 6)]
GRID = run_batch(1, 2, rates=(0.01, 0.1))
RUNS = [(run.hyperparameters["lr"], run.seed) for run in GRID.runs]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(runner, "POLL", 0.02)


def train(executor, run_batches, store, *told) -> None:
    with Runner(executor, *told) as runner:
        runner.train(run_batches, store)


def counts(store: Store) -> Counter:
    """Return how often each run is recorded."""
    lines = [line for file in (store.path / "records").glob("*") for line in file.read_text().splitlines()]
    return Counter(line.partition('"run":"')[2].partition('"')[0] for line in lines)


def once(*run_batches) -> Counter:
    return Counter(run.hash for each in run_batches for run in each.runs)


def test_every_run_batch_is_recorded_and_reported(store):
    events: list[dict] = []
    executor = Scripted()
    train(executor, RUN_BATCHES, store, events.append)
    assert counts(store) == once(*RUN_BATCHES)
    assert [(each["population"], each["machine"]) for each in store.costs()] == [
        (each.name, "Plan9 mips, 64 cores") for each in RUN_BATCHES
    ]
    assert [event["event"] for event in events] == ["planned", *["begun", "finished"] * 3]
    assert events[0] == {"event": "planned", "run_batches": 3, "runs": 6}
    assert events[1] == {
        "event": "begun", "run_batch": RUN_BATCHES[0].name, "text": "fedavg on digits, 2 seeds", "runs": 2,
    }  # fmt: skip
    assert {key: events[2][key] for key in ("runs", "diverged", "seconds")} == {"runs": 2, "diverged": 0, "seconds": 1}
    assert executor.closed == [False]
    assert lease.active_leases(store) == []


def test_one_executor_trains_all_run_batches_and_is_closed_at_the_end(store):
    executor, made = Scripted(lambda run_batch: BatchResult(run_batch, error="no such thing")), []
    with Runner(lambda told: made.append(told) or executor(told)) as runner:
        with pytest.raises(FailedError):
            runner.train(RUN_BATCHES[:1], store)
        executor.end = trained
        runner.train(RUN_BATCHES[1:2], store)
        runner.train(RUN_BATCHES[2:], store)
        assert executor.closed == []
    assert executor.closed == [False]
    assert len(made) == 1
    assert counts(store) == once(*RUN_BATCHES[1:])


def test_after_an_interruption_another_executor_is_made(store):
    def interrupt(run_batch):
        raise KeyboardInterrupt

    executors = [Scripted(interrupt), Scripted()]
    made = iter(executors)
    with Runner(lambda told: next(made)(told)) as runner:
        with pytest.raises(KeyboardInterrupt):
            runner.train(RUN_BATCHES, store)
        assert executors[0].closed == [True]
        runner.train(RUN_BATCHES, store)
    assert [each.closed for each in executors] == [[True], [False]]
    assert counts(store) == once(*RUN_BATCHES)


def test_without_run_batches_no_executor_is_made(store):
    with Runner(lambda told: pytest.fail("made")):
        pass


def test_run_batches_recorded_meanwhile_are_not_trained(store):
    store.write([record(run) for run in RUN_BATCHES[1].runs], seconds=1)
    executor = Scripted()
    train(executor, RUN_BATCHES, store)
    assert executor.begun == [RUN_BATCHES[0], RUN_BATCHES[2]]
    assert counts(store) == once(*RUN_BATCHES)


def test_progress_is_reported_and_written_to_the_lease(store, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT", 0.02)
    monkeypatch.setattr(lease.Leases.__init__, "__defaults__", (0.02,))
    events: list[dict] = []
    seen: list[dict] = []

    def end(run_batch):
        executor.progress(run_batch.name, 3, 7, 0.5)
        wait_for(lambda: "round" in lease.active_leases(store)[0])
        seen.extend(lease.active_leases(store))
        return trained(run_batch)

    executor = Scripted()
    with Runner(executor, events.append) as runner:
        runner.train(RUN_BATCHES[1:], store)  # earlier run batches, with their own leases
        executor.end = end
        runner.train(RUN_BATCHES[:1], store)
    name = RUN_BATCHES[0].name
    assert {"event": "round", "run_batch": name, "round": 3, "rounds": 7, "loss": 0.5} in events
    (held,) = seen
    assert (held["run_batch"], held["round"], held["rounds"], held["loss"]) == (name, 3, 7, 0.5)


def test_a_failing_run_batch_leaves_the_others_alone(store):
    def end(run_batch):
        return BatchResult(run_batch, error="no such thing") if run_batch == RUN_BATCHES[1] else trained(run_batch)

    events: list[dict] = []
    with pytest.raises(FailedError) as error:
        train(Scripted(end), RUN_BATCHES, store, events.append)
    assert str(error.value) == (
        "2 of 6 runs failed, all others are recorded; the first failure (fedavg on digits, 2 seeds): no such thing"
    )
    assert error.value.status == 1
    assert counts(store) == once(RUN_BATCHES[0], RUN_BATCHES[2])
    assert [event["event"] for event in events].count("failed") == 1
    assert lease.active_leases(store) == []


def test_a_traceback_is_kept_until_the_run_batch_is_recorded(store):
    trace = "Traceback (most recent call last):\n  ...\nKeyError: 'lr'\n"
    executor = Scripted(lambda run_batch: BatchResult(run_batch, error="KeyError: 'lr'", trace=trace))
    events: list[dict] = []
    with pytest.raises(FailedError) as error:
        train(executor, RUN_BATCHES[:2], store, events.append)
    files = [store.path / "failed" / f"{each.name}.txt" for each in RUN_BATCHES[:2]]
    assert str(error.value).endswith(f": KeyError: 'lr'; traceback in {files[0]}")
    assert [event["error"] for event in events if event["event"] == "failed"] == [
        f"KeyError: 'lr'; traceback in {file}" for file in files
    ]
    assert [file.read_text() for file in files] == [f"fedavg on digits, 2 seeds\n\n{trace}"] * 2
    assert status(store)[0]["failed"] == [{"file": str(file), "text": "fedavg on digits, 2 seeds"} for file in files]
    train(Scripted(), RUN_BATCHES[:1], store)
    assert [file.exists() for file in files] == [False, True]
    lines = list(of_state(status(store)[0]))
    assert lines[lines.index("  failed     1 run batch") + 1] == f"    fedavg on digits, 2 seeds  {files[1]}"


def test_a_traceback_that_cannot_be_written_is_one_line(store):
    store.path.mkdir()
    (store.path / "failed").touch()
    executor = Scripted(lambda run_batch: BatchResult(run_batch, error="KeyError: 'lr'", trace="Traceback"))
    with pytest.raises(SilobenchError, match=r"failed/\w+\.txt: cannot be written \(.+\); fix this"):
        train(executor, RUN_BATCHES[:1], store)


def culprit(error: str):
    """Return a function that loses every run batch with the run of rate 0.1 and seed 2."""

    def end(run_batch):
        bad = any((run.hyperparameters["lr"], run.seed) == (0.1, 2) for run in run_batch.runs)
        return BatchResult(run_batch, error=error, lost=True) if bad else trained(run_batch)

    return end


def test_a_run_batch_whose_worker_died_is_tried_again_and_then_split(store):
    executor = Scripted(culprit("a worker died"))
    with pytest.raises(
        FailedError, match=r"a worker died, and the run batch cannot be split; use a machine with more mem"
    ):
        train(executor, [GRID], store)
    tried = [[(run.hyperparameters["lr"], run.seed) for run in each.runs] for each in executor.begun]
    low, high = RUNS[:2], RUNS[2:]
    assert tried == [RUNS, RUNS, low, high, high, [(0.1, 1)], [(0.1, 2)], [(0.1, 2)]]
    assert sorted(counts(store).values()) == [1, 1, 1]


def test_a_run_batch_without_enough_memory_is_split_immediately(store):
    executor, events = Scripted(culprit("out of memory")), []
    with pytest.raises(FailedError, match="out of memory, and the run batch cannot be split"):
        train(executor, [GRID], store, events.append)
    assert [len(each.runs) for each in executor.begun] == [4, 2, 2, 1, 1]
    assert [event["event"] for event in events].count("split") == 2
    assert sorted(counts(store).values()) == [1, 1, 1]


def test_one_lost_worker_costs_one_more_attempt(store):
    lost = iter([True])
    executor = Scripted(
        lambda run_batch: BatchResult(run_batch, error="died", lost=True) if next(lost, False) else trained(run_batch)
    )
    train(executor, RUN_BATCHES, store)
    assert executor.begun == [RUN_BATCHES[0], *RUN_BATCHES]
    assert counts(store) == once(*RUN_BATCHES)


def test_a_run_batch_with_rungs_is_not_split(store):
    halving = replace(GRID, rungs=(1, 2), reduction=2)
    executor = Scripted(culprit("out of memory"))
    with pytest.raises(FailedError, match="cannot be split"):
        train(executor, [halving], store)
    assert executor.begun == [halving]


def test_a_stop_lets_running_batches_end_and_starts_no_others(store):
    stop = threading.Event()
    executor = Scripted(room=2)
    with pytest.raises(StoppedError) as error:
        train(executor, RUN_BATCHES, store, lambda event: stop.set() if event["event"] == "finished" else None, stop)
    assert error.value.status == 130
    assert executor.begun == RUN_BATCHES[:2]
    assert counts(store) == once(*RUN_BATCHES[:2])
    assert executor.closed == [False]
    assert lease.active_leases(store) == []


def test_a_stop_after_the_last_run_batch_is_no_error(store):
    stop = threading.Event()
    executor = Scripted(room=3)
    train(executor, RUN_BATCHES, store, lambda event: stop.set() if event["event"] == "finished" else None, stop)
    assert counts(store) == once(*RUN_BATCHES)


def test_an_interruption_stops_the_workers_and_releases_the_leases(store):
    def end(run_batch):
        raise KeyboardInterrupt

    executor = Scripted(end)
    with pytest.raises(KeyboardInterrupt):
        train(executor, RUN_BATCHES, store)
    assert executor.closed == [True]
    assert list((store.path / "leases").iterdir()) == []


def test_records_that_cannot_be_written_end_the_sweep(store, monkeypatch):
    def full(*arguments, **options):
        raise SilobenchError("no space left")

    monkeypatch.setattr(store, "write", full)
    executor = Scripted()
    with pytest.raises(SilobenchError, match="no space left"):
        train(executor, RUN_BATCHES, store)
    assert (executor.begun, executor.closed) == (RUN_BATCHES[:1], [True])


OTHER = """
import json
import sys
from pathlib import Path
from bench.sweep.lease import Leases
from bench.sweep.status import status
from bench.sweep.store import Store

store, name, records = Store(Path(sys.argv[1])), sys.argv[2], json.loads(sys.argv[3])
with Leases(store) as leases:
    assert leases.claim(name, {})
    print("held", flush=True)
    sys.stdin.readline()
    store.write(records, seconds=1)
"""


@pytest.fixture
def other(store):
    """Yield another process that trains the second run batch; a line on its standard input makes it finish."""
    theirs = RUN_BATCHES[1]
    records = json.dumps([record(run) for run in theirs.runs])
    command = [sys.executable, "-c", OTHER, str(store.path), theirs.name, records]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_run_batches_of_other_processes_are_awaited(store, other):
    done = iter(range(9))

    def end(run_batch):
        if next(done) == 1:  # our last one
            threading.Timer(0.1, lambda: print(file=other.stdin, flush=True)).start()
        return trained(run_batch)

    executor = Scripted(end)
    train(executor, RUN_BATCHES, store)
    assert executor.begun == [RUN_BATCHES[0], RUN_BATCHES[2]]
    assert counts(store) == once(*RUN_BATCHES)


def test_the_run_batch_of_a_dead_process_is_trained_by_the_first_free_worker(store, other):
    """The last run batch ends only after that of the dead process has started."""

    class Patient(Scripted):
        def finished(self, timeout):
            if len(self.begun) == len(self.running):  # no run batch has ended yet
                other.kill()
                other.wait()
            elif len(self.begun) < 3:
                return []
            return super().finished(timeout)

    executor = Patient(room=2)
    train(executor, RUN_BATCHES, store)
    assert executor.begun == [RUN_BATCHES[0], RUN_BATCHES[2], RUN_BATCHES[1]]
    assert counts(store) == once(*RUN_BATCHES)


def test_a_warning_of_training_is_told_once(store, monkeypatch):
    def warn(run_batch, site, tell):
        logging.getLogger("bench.train.path").warning("cannot be stacked: %s", "no batching rule")
        return [record(run) for run in run_batch.runs]

    monkeypatch.setattr(training, "train", warn)
    executor = Scripted(lambda run_batch: attempt(run_batch, WorkerSettings(None, None), lambda *_: None))
    events: list[dict] = []
    train(executor, RUN_BATCHES, store, events.append)
    told = [event for event in events if event["event"] == "note"]
    assert told == [{"event": "note", "text": "cannot be stacked: no batching rule"}]
