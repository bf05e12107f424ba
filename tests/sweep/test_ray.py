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
from bench.sweep import ray_executor, work
from bench.sweep.executors import InProcess
from bench.sweep.ray_executor import OnRay
from bench.sweep.runner import FailedError, Runner
from bench.sweep.store import Store
from bench.sweep.work import Site
from bench.types import DataError, Federation, SilobenchError
from tests.sweep.scripted import alive, contents, federation, population, wait_for

POPULATIONS = [population(2 * number, 2 * number + 1) for number in range(4)]


@pytest.fixture(scope="module")
def cluster():
    """Two machines, as far as Ray can tell, of one core each; the first keeps the books."""
    machines = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
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
    monkeypatch.setattr(work, "_loaded", {})
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


def swept(address: str | None, store: Store, then=lambda: None, populations=POPULATIONS) -> list[dict]:
    """Train on Ray and do something else on the way; what was told."""
    events: list[dict] = []
    meanwhile = threading.Thread(target=then)
    meanwhile.start()
    site = Site(None, store.path / "snapshots")
    Runner(lambda told: OnRay(address, site, told), events.append).train(populations, store)
    meanwhile.join()
    return events


def test_killed_workers_and_machines_change_no_record(cluster, closed, expected, tmp_path):
    """First one of the two workers is killed, then, once its population is in work again, the second machine."""
    store = Store(tmp_path / "runs")
    killed: list[int] = []

    def kill():
        before = waiting(closed, 2)
        assert len(before) == 2  # one on each machine
        killed.append(before[cluster.head_node.node_id])
        os.kill(killed[0], signal.SIGKILL)
        waiting(closed, 3)
        cluster.remove_node(cluster.second, allow_graceful=False)
        killed.append(before[cluster.second.node_id])
        wait_for(lambda: not alive(killed[1]))
        (closed / "open").touch()

    handler = signal.getsignal(signal.SIGTERM)
    events = swept(cluster.address, store, kill)
    assert signal.getsignal(signal.SIGTERM) is handler
    assert contents(store) == expected
    told = Counter((event["event"], event.get("population")) for event in events if event["event"] != "round")
    assert sum(number for (event, _), number in told.items() if event == "begun") == len(POPULATIONS) + 2
    assert {each: told["finished", each.name] for each in POPULATIONS} == dict.fromkeys(POPULATIONS, 1)
    assert len(store.costs()) == len(POPULATIONS)
    assert not ray.is_initialized()
    assert list((store.path / "snapshots").iterdir()) == []
