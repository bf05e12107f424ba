"""Executors of one machine: equal records in every process, and failures that affect their run batch only."""

from __future__ import annotations

import dataclasses
import os
import platform
import signal
import time

import pytest

from bench import spec
from bench.sweep.executors import base
from bench.sweep.executors.base import BatchResult, failure, throttled
from bench.sweep.executors.local import InProcessExecutor, ProcessExecutor
from bench.sweep.runner import Runner
from bench.sweep.store import Store
from bench.sweep.study import run_study
from bench.sweep.training import WorkerSettings
from bench.types import DataError
from tests.sweep.scripted import Stage, alive, contents, run_batch, wait_for


def ignore(*told) -> None:
    pass


def drained(executor, count: int = 1) -> dict[tuple[int, ...], BatchResult]:
    """Return the results of ``count`` run batches, by their seeds."""
    done: list[BatchResult] = []
    wait_for(lambda: bool(done.extend(executor.finished(0.1)) or len(done) >= count))
    return {each.run_batch.seeds: each for each in done}


RAISED = 'raise ValueError("no such\\nthing")'


def shows(statement: str, done: BatchResult) -> bool:
    """Tell whether the result has a traceback that shows the statement."""
    return done.trace is not None and statement in done.trace


@pytest.mark.parametrize(
    ("error", "said", "lost"),
    [
        (DataError("x.csv: no\nsuch  column"), "x.csv: no such column", False),
        (KeyError("lr"), "KeyError: 'lr'", False),
        (MemoryError(), "out of memory", True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "out of memory", True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out of memory", True),
        (RuntimeError("shapes differ"), "RuntimeError: shapes differ", False),
    ],
)
def test_errors_are_one_line_and_unexpected_ones_have_a_traceback(error, said, lost):
    done = failure(run_batch(1), error)
    assert dataclasses.replace(done, trace=None) == BatchResult(run_batch(1), error=said, lost=lost)
    assert (done.trace is not None) == (": " in said and not isinstance(error, DataError))


def test_throttled_progress_passes_the_first_call_and_then_one_per_interval(monkeypatch):
    moments = iter((0.0, 0.1, 0.2, 0.3, 0.4))
    monkeypatch.setattr(base, "PROGRESS_INTERVAL", 0.15)
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    heard: list[tuple] = []
    tell = throttled(lambda *told: heard.append(told))
    for round_ in range(1, 6):
        tell(round_, 5, None)
    assert heard == [(1, 5, None), (3, 5, None), (5, 5, None)]


def test_in_process_one_run_batch_is_trained_at_a_time(tmp_path):
    heard: list[tuple] = []
    executor = InProcessExecutor(Stage.at(tmp_path / "stage"), lambda *told: heard.append(told))
    assert executor.free
    assert executor.finished(0) == []
    executor.submit(run_batch(1, 2))
    assert not executor.free
    (done,) = executor.finished(0)
    assert executor.free
    assert [each["run"] for each in done.records] == [run.hash for run in run_batch(1, 2).runs]
    assert (done.error, done.lost) == (None, False)
    assert done.seconds > 0
    assert [told[:3] for told in heard] == [(run_batch(1, 2).name, 1, 2), (run_batch(1, 2).name, 2, 2)]


@pytest.mark.parametrize(("act", "error", "lost"), [("raise", "ValueError: no such thing", False),
                                                    ("memory", "out of memory", True)])  # fmt: skip
def test_in_process_errors_become_results(tmp_path, act, error, lost):
    executor = InProcessExecutor(Stage.at(tmp_path / "stage", seed1=act), ignore)
    executor.submit(run_batch(1))
    (done,) = executor.finished(0)
    assert (done.run_batch, done.records, done.error, done.lost) == (run_batch(1), None, error, lost)
    assert shows(RAISED, done) == (act == "raise")


@pytest.fixture
def processes(tmp_path):
    """Yield an executor with two worker processes, and the list of its progress calls."""
    heard: list[tuple] = []
    executor = ProcessExecutor(2, Stage.at(tmp_path / "stage"), lambda *told: heard.append(told))
    yield executor, heard
    executor.close(now=True)


def test_a_worker_that_dies_is_replaced_and_the_others_continue(processes):
    executor, heard = processes
    executor.worker = executor.worker.told(seed1="die once", seed2="wait", seed3="raise", seed4="memory")
    executor.submit(run_batch(1))
    executor.submit(run_batch(2))
    assert not executor.free
    (dead,) = drained(executor).values()
    assert (dead.run_batch, dead.lost) == (run_batch(1), True)
    assert dead.error == f"a worker process died (exit status {-signal.SIGKILL})"
    assert executor.free
    (waiting,) = executor.worker.waiting()
    os.kill(waiting, signal.SIGTERM)  # a batch system sends this to all processes, a terminal the next one
    os.kill(waiting, signal.SIGINT)
    executor.submit(run_batch(1))
    assert [each["run"] for each in drained(executor)[1,].records] == [run_batch(1).runs[0].hash]
    for seed in (3, 4):
        executor.submit(run_batch(seed))
        (done,) = drained(executor).values()
        assert (done.error, done.lost) == (("ValueError: no such thing", False), ("out of memory", True))[seed - 3]
        assert shows(RAISED, done) == (seed == 3)
    executor.worker.go()
    assert drained(executor)[2,].records
    assert {told[0] for told in heard} == {run_batch(1).name, run_batch(2).name}
    executor.worker = executor.worker.told(seed5="elsewhere")
    executor.submit(run_batch(5))
    assert drained(executor)[5,].machine == f"{platform.system()} elsewhere, {os.cpu_count()} cores"
    workers = [each.process.pid for each in executor._started]
    assert waiting in workers
    executor.close()
    assert not any(map(alive, workers))


def test_closing_now_kills_the_workers(processes):
    executor, _ = processes
    executor.worker = executor.worker.told(seed1="wait")
    executor.submit(run_batch(1))
    (worker,) = executor.worker.waiting()
    executor.close(now=True)
    assert not alive(worker)


STUDY = """
title = "A study"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 2
local_epochs = 1
batch_size = 32
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 0.01]
[methods.fedper]
model = "mlp"
fixed.lr = 0.1
[methods.scaffold]
model = "logistic"
fixed.lr = 0.1
"""


@pytest.mark.slow
def test_worker_processes_and_this_process_give_equal_records(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    study = spec.read(tmp_path / "study.toml")
    here, elsewhere = Store(tmp_path / "here"), Store(tmp_path / "elsewhere")
    with Runner(lambda told: InProcessExecutor(WorkerSettings(None, None), told)) as runner:
        found = run_study(study, here, runner=runner)
    site = WorkerSettings(None, tmp_path / "elsewhere" / "snapshots", every_rounds=1)
    with Runner(lambda told: ProcessExecutor(2, site, told)) as runner:
        assert run_study(study, elsewhere, runner=runner) == found
    assert contents(elsewhere) == contents(here)
    assert len(contents(here)) == 3
    assert list(site.snapshots.iterdir()) == []
