"""Leases: one holder at a time; a lease is free when its holder is dead, not before."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sweep import lease
from bench.sweep.lease import STALE_AFTER, Leases, active_leases
from bench.sweep.store import Store
from bench.types import SilobenchError
from tests.sweep.scripted import wait_for

HOLDER = """
import sys, time
from pathlib import Path
from bench.sweep.lease import Leases
from bench.sweep.store import Store
with Leases(Store(Path(sys.argv[1]))) as leases:
    print(leases.claim("a", {"text": "fedavg on digits", "runs": 4}), flush=True)
    time.sleep(600)
"""
CROWD = """
import os, sys, time
from pathlib import Path
from bench.sweep.lease import Leases
from bench.sweep.store import Store
store, go = Store(Path(sys.argv[1])), Path(sys.argv[2])
for number in range(16):
    if os.fork() == 0:
        with Leases(store) as leases:
            names = [str((each + number) % 5) for each in range(5)]
            os.write(1, ("".join(name for name in names if leases.claim(name, {})) + "\\n").encode())
            while not go.exists():
                time.sleep(0.01)
        os._exit(0)
for _ in range(16):
    os.wait()
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture
def holder(store):
    """Yield another process that holds the lease of "a"."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, store.path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def claims(store: Store, run_batch: str = "a") -> bool:
    """Tell whether this process gets the lease."""
    with Leases(store) as leases:
        return leases.claim(run_batch, {})


def written(store: Store, **changed) -> None:
    """Write the lease of "a" as this process would, with some values changed."""
    content = {**lease._holder(), "run_batch": "a", "begun": time.time(), **changed}
    file = store.path / "leases" / "a.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def age(store: Store, seconds: float) -> None:
    changed = time.time() - seconds
    os.utime(store.path / "leases" / "a.json", (changed, changed))


def test_a_lease_is_held_until_its_process_is_killed(store, holder):
    assert not claims(store)
    (held,) = active_leases(store)
    assert (held["pid"], held["text"], held["runs"]) == (holder.pid, "fedavg on digits", 4)
    holder.send_signal(signal.SIGSTOP)  # alive, but without a heartbeat for a long time
    age(store, 3600)
    assert not claims(store)
    holder.kill()
    wait_for(lambda: not active_leases(store))  # a zombie
    assert claims(store)
    holder.wait()
    assert claims(store)


def test_a_process_claims_once_and_releases_its_leases(store):
    with Leases(store) as leases:
        assert leases.claim("a", {})
        assert not leases.claim("a", {})
        assert leases.claim("b", {})
        leases.release("b")
        assert [held["run_batch"] for held in active_leases(store)] == ["a"]
        assert claims(store, "b")
    assert active_leases(store) == []
    assert list((store.path / "leases").iterdir()) == []


def test_progress_is_in_the_lease_at_the_next_heartbeat(store):
    with Leases(store, beat=0.01) as leases:
        leases.claim("a", {"text": "fedavg on digits"})
        leases.note("a", round=3, rounds=20, loss=0.5)
        leases.note("b", round=1)  # released meanwhile
        wait_for(lambda: active_leases(store)[0].get("round") == 3)
        assert [held["text"] for held in active_leases(store)] == ["fedavg on digits"]


def test_heartbeats_rewrite_a_lease(store):
    with Leases(store, beat=0.01) as leases:
        leases.claim("a", {})
        age(store, 3600)
        wait_for(lambda: time.time() - (store.path / "leases" / "a.json").stat().st_mtime < 60)


def test_another_process_with_the_same_id_is_not_the_holder(store):
    written(store)
    assert not claims(store)
    written(store, started="1")
    assert claims(store)


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"boot": "before the machine went down"}])
def test_a_lease_of_another_machine_is_valid_while_it_is_renewed(store, elsewhere):
    written(store, **elsewhere)
    age(store, STALE_AFTER / 2)
    assert not claims(store)
    age(store, STALE_AFTER + 1)
    assert active_leases(store) == []
    assert claims(store)


def test_a_lease_of_another_machine_with_a_future_time_expires(store):
    written(store, host="elsewhere")
    age(store, -3600)  # a clock was set back
    assert claims(store)


@given(st.data())
def test_a_damaged_lease_can_be_taken_over(tmp_path_factory, data):
    store = Store(tmp_path_factory.mktemp("damaged"))
    written(store, started="1", begun=1.5)
    file = store.path / "leases" / "a.json"
    content = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    file.write_bytes(content)
    age(store, 3600)
    assert active_leases(store) == []
    assert claims(store)


@pytest.mark.parametrize("content", ["", "[]", "7", "{}", '{"pid": -1, "host": "", "boot": "", "begun": 0.0}'])
def test_invalid_leases_are_ignored(store, content):
    written(store)
    (store.path / "leases" / "a.json").write_text(content)
    assert claims(store)


def test_of_sixteen_processes_one_gets_each_lease(store, tmp_path):
    go = tmp_path / "go"
    with subprocess.Popen([sys.executable, "-c", CROWD, store.path, go], stdout=subprocess.PIPE, text=True) as crowd:
        got = [crowd.stdout.readline().strip() for _ in range(16)]
        held = active_leases(store)
        go.touch()
    assert crowd.returncode == 0
    assert sorted("".join(got)) == ["0", "1", "2", "3", "4"]
    assert sorted(each["run_batch"] for each in held) == ["0", "1", "2", "3", "4"]
    assert len({each["pid"] for each in held}) == sum(map(bool, got))
    assert active_leases(store) == []


def test_a_full_disk_is_an_error_and_leaves_no_lease(store, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Leases(store) as leases:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(SilobenchError, match=r"a\.json: cannot be written \(No space left on device\)"):
                leases.claim("a", {})
        assert active_leases(store) == []
        assert leases.claim("a", {})
