"""Run batches on a Ray cluster of two machines: equal records, also if workers and machines die meanwhile."""

from __future__ import annotations

import dataclasses
import os
import platform
import signal
import socket
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from bench import registry
from bench.sweep import training
from bench.sweep.cost import memory
from bench.sweep.executors.base import BatchResult
from bench.sweep.executors.local import InProcessExecutor
from bench.sweep.executors.on_ray import RayExecutor
from bench.sweep.plan import PlannedBatch
from bench.sweep.runner import FailedError, Runner
from bench.sweep.store import Store
from bench.sweep.training import WorkerSettings
from bench.types import Federation, SilobenchError
from tests.sweep.scripted import alive, contents, federation, run_batch, wait_for

RUN_BATCHES = [run_batch(2 * number, 2 * number + 1) for number in range(4)]


@pytest.fixture(scope="module")
def cluster():
    """Yield a cluster of two simulated machines with one core each; the first is the head."""
    machines = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise a cluster of this machine would ask for a token
        cluster: Any = Cluster(initialize_head=True, head_node_args={**machines, "include_dashboard": False})
        cluster.second = cluster.add_node(**machines)
        yield cluster
        cluster.shutdown()


def gate(folder: Path):
    """Return a ``prepare`` function of data that reports its worker and waits until the gate is open.

    It is serialised with the data, like functions in the file of a data set, of which ``adapter`` is an example. It
    changes the worker's name of the machine; if a file "fault" exists, it fails.
    """
    adapter, here = registry.load("datasets", "digits"), os.getpid()
    folder.mkdir()

    def prepare(x):
        import os
        import platform
        import time

        import ray

        assert adapter.registered_name == "digits"
        if os.getpid() == here:
            return x
        platform.machine = lambda: "elsewhere"
        if (folder / "fault").exists():
            raise ValueError("no such thing")
        if not (folder / "open").exists():
            (folder / f"{os.getpid()} {ray.get_runtime_context().get_node_id()}").touch()
            while not (folder / "open").exists():
                time.sleep(0.02)
        return x

    return prepare


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """Return a closed gate in the data, which only this process can load."""
    prepare, here = gate(tmp_path / "gate"), os.getpid()

    def load(name: str, root: Path | None) -> Federation:
        assert os.getpid() == here
        return dataclasses.replace(federation(), prepare=prepare)

    monkeypatch.setattr(training, "load_dataset", load)
    monkeypatch.setattr(training, "_loaded", training.RecentCache())
    return tmp_path / "gate"


@pytest.fixture
def expected(closed, tmp_path):
    """Return the records of training in this process."""
    store = Store(tmp_path / "here")
    with Runner(lambda told: InProcessExecutor(WorkerSettings(None, None), told)) as runner:
        runner.train(RUN_BATCHES, store)
    return contents(store)


def waiting(gate: Path, count: int) -> dict[str, int]:
    """Return the processes that wait at the gate, by machine, as soon as there are ``count``."""
    wait_for(lambda: len(list(gate.iterdir())) >= count)
    return {machine: int(pid) for pid, machine in (each.name.split() for each in gate.iterdir())}


def ignore(*told) -> None:
    pass


def test_run_batches_wait_for_a_core_and_all_are_trained(cluster, closed, tmp_path):
    heard: list[tuple] = []
    executor = RayExecutor(
        cluster.address, WorkerSettings(None, tmp_path / "snapshots"), lambda *told: heard.append(told)
    )
    first, second = RUN_BATCHES[:2]
    for each in (first, second):
        assert executor.free
        executor.submit(each)
    assert not executor.free
    workers = waiting(closed, 2).values()
    executor._board.put.remote(first.name, 1, 2, 0.5)
    executor._board.put.remote("of another time", 2, 2, 0.5)
    wait_for(lambda: executor.finished(0.02) == [] and bool(heard))
    assert heard == [(first.name, 1, 2, 0.5)]
    executor.close(now=True)
    wait_for(lambda: not any(map(alive, workers)))
    assert not ray.is_initialized()


def test_data_are_put_once_and_read_without_a_copy(cluster, closed):
    (closed / "open").touch()
    ray.init(cluster.address, log_to_driver=False)
    try:
        executor = RayExecutor(None, WorkerSettings(None, None), ignore)
        run, other = RUN_BATCHES[0].runs
        put = executor._data.get(run, executor._put)
        assert executor._data.get(other, executor._put) == put
        (_, one), (_, again) = ray.get(put), ray.get(put)
        assert one.fingerprint == run.data["fingerprint"]
        for ours, theirs, same in zip(federation().clients, one.clients, again.clients, strict=True):
            assert torch.equal(ours.train.x, theirs.train.x)
            assert theirs.train.x.data_ptr() == same.train.x.data_ptr()
        executor.close()
        assert ray.is_initialized()  # the executor did not start Ray, so it must not stop it
    finally:
        ray.shutdown()


@pytest.mark.parametrize(("workers", "share", "room"), [(0, 4, 8), (3, 2, 3), (2, 1, 2)])
def test_gpus_are_shared_by_a_few_run_batches(cluster, monkeypatch, workers, share, room):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 2.0})
    executor = RayExecutor(cluster.address, WorkerSettings(None, None), ignore, workers)
    try:
        assert executor._per_gpu == share
        for number in range(room):
            assert executor.free
            executor._running[number] = RUN_BATCHES[0], 0
        assert not executor.free
    finally:
        executor._running.clear()
        executor.close()


def ended(executor: RayExecutor) -> BatchResult:
    done: list[BatchResult] = []
    wait_for(lambda: bool(done.extend(executor.finished(0.1)) or done))
    return done[0]


def test_run_batches_request_memory_up_to_that_of_the_largest_machine(cluster, closed, monkeypatch):
    monkeypatch.setattr(memory, "bytes_needed", lambda run_batch, federation: 2**30 * run_batch.seeds[0])
    machines, first, large = [4 * 2**30], run_batch(3), run_batch(2**10)
    executor = RayExecutor(cluster.address, WorkerSettings(None, None), ignore, workers=8)
    try:
        largest = max(executor._memory())
        monkeypatch.setattr(executor, "_memory", lambda: machines)
        executor.submit(first)
        waiting(closed, 1)
        wait_for(lambda: ray.available_resources()["memory"] <= ray.cluster_resources()["memory"] - 3 * 2**30)
        assert executor.free  # a quarter is left
        executor.submit(run_batch(2))
        assert not executor.free
        (closed / "open").touch()
        assert ended(executor).records
        assert ended(executor).records
        machines[:] = [2**40]
        executor.submit(large)
        assert executor.finished(0.1) == []
        machines[:] = [largest]  # all others have died
        lost = ended(executor)
        assert (lost.run_batch, lost.records, lost.lost) == (large, None, True)
        executor.submit(large)
        assert ended(executor).records
    finally:
        executor.close(now=True)


def trap():
    """Return a function that can be unpacked only in this process."""
    here = os.getpid()

    def spring():
        import os

        if os.getpid() != here:
            raise KeyError("lr")

    class Trap:
        def __reduce__(self):
            return spring, ()

    return Trap()


def test_an_unexpected_error_has_the_traceback_of_the_worker(cluster, closed, monkeypatch):
    (closed / "fault").touch()
    executor = RayExecutor(cluster.address, WorkerSettings(None, None), ignore)
    try:
        executor.submit(RUN_BATCHES[0])
        in_training = ended(executor)
        monkeypatch.setattr(training, "load_dataset", lambda *asked: dataclasses.replace(federation(), prepare=trap()))
        executor._data = training.RecentCache()
        executor.submit(RUN_BATCHES[0])
        unpacking = ended(executor)
    finally:
        executor.close()
    assert (in_training.error, in_training.lost) == ("ValueError: no such thing", False)
    assert "in prepare" in in_training.trace
    assert (unpacking.error, unpacking.lost) == ("KeyError: 'lr'", False)
    assert "in spring" in unpacking.trace


def of_data(seed: int, **data: str) -> PlannedBatch:
    """Return a run batch whose run has other metadata of its data."""
    made = run_batch(seed)
    return dataclasses.replace(made, runs=(dataclasses.replace(made.runs[0], data={**made.runs[0].data, **data}),))


def test_without_an_address_a_cluster_is_started_here(cluster, closed, expected, tmp_path):
    (closed / "open").touch()
    store = Store(tmp_path / "runs")
    unknown, changed = of_data(8, name="digit"), of_data(9, fingerprint="another")
    events: list[dict] = []
    with (
        pytest.raises(FailedError, match="2 of 10 runs failed"),
        Runner(lambda told: RayExecutor(None, WorkerSettings(None, None), told, workers=1), events.append) as runner,
    ):
        runner.train([unknown, changed, *RUN_BATCHES], store)
    assert contents(store) == expected
    errors = {event["run_batch"]: event["error"] for event in events if event["event"] == "failed"}
    assert "unknown data set 'digit': did you mean 'digits'?" in errors[unknown.name]
    assert errors[changed.name].startswith("digits: the data have changed since the study was planned, expected ")


def test_killed_workers_and_machines_change_no_record(cluster, closed, expected, tmp_path):
    """Kill one of the two workers; when its run batch is in training again, kill the second machine."""
    store, events = Store(tmp_path / "runs"), []

    def kill():
        try:
            workers = waiting(closed, 2)
            assert len(workers) == 2  # one on each machine
            os.kill(workers[cluster.head_node.node_id], signal.SIGKILL)
            waiting(closed, 3)
            cluster.remove_node(cluster.second, allow_graceful=False)
            wait_for(lambda: not alive(workers[cluster.second.node_id]))
        finally:
            (closed / "open").touch()

    killing = threading.Thread(target=kill)
    killing.start()
    handler = signal.getsignal(signal.SIGTERM)
    site = WorkerSettings(None, store.path / "snapshots", every_rounds=1)
    with Runner(lambda told: RayExecutor(cluster.address, site, told), events.append) as runner:
        runner.train(RUN_BATCHES, store)
    assert signal.getsignal(signal.SIGTERM) is handler
    killing.join()
    assert contents(store) == expected
    elsewhere = f"{platform.system()} elsewhere, {os.cpu_count()} cores"
    assert [cost["machine"] for cost in store.costs()] == [elsewhere] * len(RUN_BATCHES)
    told = Counter((event["event"], event.get("run_batch")) for event in events)
    assert [told["finished", each.name] for each in RUN_BATCHES] == [1] * 4
    assert sorted(told["begun", each.name] for each in RUN_BATCHES) == [1, 1, 2, 2]
    assert list((store.path / "snapshots").iterdir()) == []


@pytest.mark.slow
def test_a_missing_ray_and_a_wrong_address_are_one_line(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(SilobenchError, match=rf"--address {address}: no Ray cluster answers there .*ray start --head"):
        RayExecutor(address, WorkerSettings(None, None), ignore)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        SilobenchError, match=r"--executor ray: the library ray is missing; pip install 'silobench\[ray\]'"
    ):
        RayExecutor("auto", WorkerSettings(None, None), ignore)
