"""Populations on a real Ray cluster of two machines: equal records, also when workers and machines die on the way."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from bench import registry
from bench.sweep import work
from bench.sweep.executors import InProcess
from bench.sweep.plan import Population
from bench.sweep.ray_executor import OnRay
from bench.sweep.runner import FailedError, Runner
from bench.sweep.store import Store
from bench.sweep.work import Site
from bench.types import Federation, SilobenchError
from tests.sweep.scripted import alive, contents, federation, population, wait_for

POPULATIONS = [population(2 * number, 2 * number + 1) for number in range(4)]


@pytest.fixture(scope="module")
def cluster():
    """Two machines, as far as Ray can tell, of one core each; the first keeps the books."""
    machines = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "RAY_AUTH_MODE", "disabled"
        )  # else a cluster of this machine asks for a token and this one does not
        cluster = Cluster(initialize_head=True, head_node_args={**machines, "include_dashboard": False})
        cluster.second = cluster.add_node(**machines)
        yield cluster
        cluster.shutdown()


def gate(folder: Path):
    """What a population's data do in its worker: say where they are, and wait until the gate is open.

    It travels with the data, as do functions of the file of a data set, of which ``adapter`` is one.
    """
    adapter = registry.load("datasets", "digits")
    folder.mkdir()

    def prepare(x):
        import os
        import time

        import ray

        assert adapter.registered_name == "digits"
        if ray.is_initialized() and not (folder / "open").exists():
            (folder / f"{os.getpid()} {ray.get_runtime_context().get_node_id()}").touch()
            while not (folder / "open").exists():
                time.sleep(0.02)
        return x

    return prepare


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A closed gate before the data, which only this process can load."""
    prepare, here = gate(tmp_path / "gate"), os.getpid()

    def load(name: str, root: Path | None) -> Federation:
        assert os.getpid() == here
        return dataclasses.replace(federation(), prepare=prepare)

    monkeypatch.setattr(work, "load_dataset", load)
    monkeypatch.setattr(work, "_loaded", work.Latest())
    return tmp_path / "gate"


@pytest.fixture
def expected(closed, tmp_path):
    """The records of this process."""
    store = Store(tmp_path / "here")
    Runner(lambda told: InProcess(Site(None, None), told)).train(POPULATIONS, store)
    return contents(store)


def waiting(gate: Path, count: int) -> dict[str, int]:
    """The processes that wait at the gate, by machine, once there are so many."""
    wait_for(lambda: len(list(gate.iterdir())) >= count)
    return {machine: int(pid) for pid, machine in (each.name.split() for each in gate.iterdir())}


def ignore(*told) -> None:
    pass


def test_populations_wait_for_a_core_and_none_is_left_behind(cluster, closed, tmp_path):
    heard: list[tuple] = []
    executor = OnRay(cluster.address, Site(None, tmp_path / "snapshots"), lambda *told: heard.append(told))
    first, second = POPULATIONS[:2]
    for each in (first, second):
        assert executor.free
        executor.submit(each)
    assert not executor.free
    workers = waiting(closed, 2).values()
    executor._notes.put.remote(first.name, 1, 2, 0.5)
    executor._notes.put.remote("of another time", 2, 2, 0.5)
    wait_for(lambda: executor.finished(0.02) == [] and bool(heard))
    assert heard == [(first.name, 1, 2, 0.5)]
    executor.close(now=True)
    wait_for(lambda: not any(map(alive, workers)))
    assert not ray.is_initialized()


def test_data_are_put_once_and_read_without_a_copy(cluster, closed):
    (closed / "open").touch()
    ray.init(cluster.address, log_to_driver=False)
    try:
        executor = OnRay(None, Site(None, None), ignore)
        run, other = POPULATIONS[0].runs
        put = executor._data.of(run, executor._put)
        assert executor._data.of(other, executor._put) == put
        (_, one), (_, again) = ray.get(put), ray.get(put)
        assert one.fingerprint == run.data["fingerprint"]
        for ours, theirs, same in zip(federation().clients, one.clients, again.clients, strict=True):
            assert torch.equal(ours.train.x, theirs.train.x)
            assert theirs.train.x.data_ptr() == same.train.x.data_ptr()
        executor.close()
        assert ray.is_initialized()  # was not ours to end
    finally:
        ray.shutdown()


@pytest.mark.parametrize(("workers", "share", "room"), [(0, 4, 8), (3, 2, 3), (2, 1, 2)])
def test_gpus_are_shared_by_a_few_populations(cluster, monkeypatch, workers, share, room):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 2.0})
    executor = OnRay(cluster.address, Site(None, None), ignore, workers)
    try:
        assert executor._per_gpu == share
        for number in range(room):
            assert executor.free
            executor._running[number] = POPULATIONS[0]
        assert not executor.free
    finally:
        executor._running.clear()
        executor.close()


def of_data(seed: int, **data: str) -> Population:
    """A population with something else in what its run says of its data."""
    made = population(seed)
    return dataclasses.replace(made, runs=(dataclasses.replace(made.runs[0], data={**made.runs[0].data, **data}),))


def test_without_an_address_this_machine_is_the_cluster(cluster, closed, expected, tmp_path):
    (closed / "open").touch()
    store = Store(tmp_path / "runs")
    unknown, changed = of_data(8, name="digit"), of_data(9, fingerprint="another")
    events: list[dict] = []
    runner = Runner(lambda told: OnRay(None, Site(None, None), told, workers=1), events.append)
    with pytest.raises(FailedError, match="2 of 6 populations failed"):
        runner.train([unknown, changed, *POPULATIONS], store)
    assert contents(store) == expected
    errors = {event["population"]: event["error"] for event in events if event["event"] == "failed"}
    assert "unknown dataset 'digit': did you mean 'digits'?" in errors[unknown.name]
    assert errors[changed.name].startswith("digits: the data have changed since the study was planned, expected ")


def test_killed_workers_and_machines_change_no_record(cluster, closed, expected, tmp_path):
    """First one of the two workers is killed, then, once its population is in work again, the second machine."""
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
    site = Site(None, store.path / "snapshots", every_rounds=1)
    Runner(lambda told: OnRay(cluster.address, site, told), events.append).train(POPULATIONS, store)
    assert signal.getsignal(signal.SIGTERM) is handler
    killing.join()
    assert contents(store) == expected
    assert len(store.costs()) == len(POPULATIONS)
    told = Counter((event["event"], event.get("population")) for event in events)
    assert [told["finished", each.name] for each in POPULATIONS] == [1] * 4
    assert sorted(told["begun", each.name] for each in POPULATIONS) == [1, 1, 2, 2]
    assert list((store.path / "snapshots").iterdir()) == []


def test_a_missing_ray_and_a_silent_address_are_said_in_a_line(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(SilobenchError, match=rf"--address {address}: no Ray cluster answers there .*ray start --head"):
        OnRay(address, Site(None, None), ignore)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SilobenchError, match=r"--executor ray needs the library ray: pip install 'silobench\[ray\]'"):
        OnRay("auto", Site(None, None), ignore)
