"""Stalled processes are reported with process, host and age; their run batches are taken over on request only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock

from bench.cli.progress import View, listening, sentence
from bench.sweep import lease, runner, store
from bench.sweep.executors.local import InProcessExecutor, ProcessExecutor
from bench.sweep.lease import QUIET_AFTER, STALLED_AFTER, Leases, active_leases
from bench.sweep.runner import Runner
from bench.sweep.store import Store
from bench.types import SilobenchError
from tests.cli.test_progress import BEGUN, PLANNED, terminal
from tests.reliability.test_bars import begun, contents, costs, toy, until_it_trains
from tests.reliability.test_real_sweeps import STUDY, command, made
from tests.sweep.scripted import Scripted, Stage, alive, run_batch, wait_for

WHOLE = run_batch(1, 2)


@pytest.fixture
def held(tmp_path) -> Store:
    """Return a store with a lease of this process, which runs."""
    write(tmp_path, WHOLE.name)
    return Store(tmp_path)


def write(folder: Path, run_batch: str, **changed: object) -> Path:
    content = {**lease._holder(), "run_batch": run_batch, "begun": time.time(), **changed}
    file = folder / "leases" / f"{run_batch}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def age(store: Store, seconds: float) -> None:
    """Set the last heartbeat of all leases to ``seconds`` ago."""
    for file in (store.path / "leases").glob("*.json"):
        os.utime(file, (time.time() - seconds,) * 2)


def stop(process: subprocess.Popen[str], store: Store) -> None:
    """Stop a process as Ctrl-Z does, and make its last heartbeat a minute old."""
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    age(store, 60)


def claims(store: Store, **options: bool) -> bool:
    with Leases(store) as leases:
        return leases.claim(WHOLE.name, {}, **options)


@pytest.mark.parametrize("seconds", [60, 7200, -7200])
def test_15_6_a_stalled_lease_is_taken_over_on_request_only(held, seconds):
    """A heartbeat in the future, after a clock was set back, counts like one in the past."""
    assert not claims(held, steal=True)
    age(held, seconds)
    (found,) = active_leases(held)
    assert found["stalled"]
    assert found["age"] == pytest.approx(abs(seconds), abs=5)
    assert not claims(held)
    assert claims(held, steal=True)


def test_15_6_a_process_drops_a_lease_that_was_taken_over(held):
    """Both train the run batch and write equal records; the lease stays with the new holder."""
    with Leases(held, beat=0.01) as ours:
        age(held, STALLED_AFTER + 1)
        assert ours.claim(WHOLE.name, {}, steal=True)
        file = write(held.path, WHOLE.name, begun=1.0)
        content = file.read_bytes()
        wait_for(lambda: ours.quiet() == {})
        ours.note(WHOLE.name, round=1)
        ours.release(WHOLE.name)
    assert file.read_bytes() == content


def test_15_6_clock_jumps_make_no_age_negative(held, monkeypatch):
    now = time.time()
    for jump in (-86400, 86400):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        (found,) = active_leases(held)
        assert found["age"] > 0
        assert found["quiet"] >= 0
        with Leases(held) as leases:
            leases.claim("another", {})
            assert leases.quiet() == {"another": 0.0}
            monkeypatch.setattr(time, "time", lambda: now)
            assert min(leases.quiet().values()) >= 0


@pytest.mark.parametrize(
    "forged",
    [{"text": ["a"]}, {"loss": "low"}, {"round": 1.5}, {"begun": 1e999}, {"progressed": -1e999}, {"pid": 10**400},
     {"worker": "7"}],
    ids=str,
)  # fmt: skip
def test_15_6_forged_leases_are_ignored(silobench, tmp_path, forged):
    write(tmp_path, WHOLE.name, **forged)
    status, out, err = silobench("status", "--store", tmp_path)
    assert (status, err) == (0, "")
    assert "training   0 run batches" in out
    assert claims(Store(tmp_path))


def test_15_6_a_folder_in_the_place_of_a_lease_is_one_line(tmp_path):
    file = tmp_path / "leases" / f"{WHOLE.name}.json"
    file.mkdir(parents=True)
    with pytest.raises(SilobenchError) as error, Runner(Scripted()) as running:
        running.train([WHOLE], Store(tmp_path))
    assert str(error.value) == f"{file}: cannot be written (Is a directory); fix this and repeat the command"


def test_15_6_status_names_stalled_and_quiet_training(silobench, tmp_path):
    write(tmp_path, "a", text="fedavg on digits", progressed=time.time() - 2 * QUIET_AFTER)
    write(tmp_path, "b", text="apfl on digits", progressed=time.time() - 30)
    process = f"process {os.getpid()} on {lease._holder()['host']}"
    _, out, _ = silobench("status", "--store", tmp_path)
    quiet, fine = out.splitlines()[2:4]
    assert quiet.endswith(f"{process}  no progress for 10 min")
    assert fine.endswith(process)
    age(Store(tmp_path), 200)
    status, out, _ = silobench("status", "--store", tmp_path)
    assert status == 0
    assert out.splitlines()[2].endswith(f"{process}  stalled: no heartbeat for 3 min 20 s")
    found = json.loads(silobench("status", "--store", tmp_path, "--json")[1])["training"][0]
    print(f"\n15.6: {out.splitlines()[2].strip()}")
    assert (found["stalled"], found["pid"], round(found["age"], -1), round(found["quiet"], -1)) == (
        True, os.getpid(), 200, 600,
    )  # fmt: skip


def test_15_6_waiting_is_reported_once_with_the_process(held, monkeypatch):
    monkeypatch.setattr(runner, "POLL", 0.01)
    monkeypatch.setattr(runner, "WAIT_REPORTED_AFTER", 0.2)
    told: list[dict] = []

    def tell(event: dict) -> None:
        told.append(event)
        if event["event"] == "waiting" and not event["stalled"]:
            age(held, 60)
        elif event["event"] == "waiting":
            (held.path / "leases" / f"{WHOLE.name}.json").unlink()

    with Runner(Scripted(), tell) as running:
        running.train([WHOLE], held)
    assert [event["event"] for event in told] == ["planned", "waiting", "waiting", "begun", "finished"]
    process = f"process {os.getpid()} on {lease._holder()['host']}"
    lines = [sentence(event) for event in told[1:3]]
    print(f"\n15.6: {lines[1]}")
    assert lines[0] == f"fedavg on digits, 2 seeds: waiting for {process}"
    assert lines[1].startswith(
        f"fedavg on digits, 2 seeds: waiting for {process}, which is stalled: no heartbeat for 1 "
    )
    assert lines[1].endswith("; continue or end it, or repeat the command with --steal")


def test_15_6_with_steal_a_stalled_run_batch_is_trained(held, monkeypatch):
    age(held, 60)
    told: list[dict] = []
    with Runner(Scripted(), told.append, steal=True) as running:
        running.train([WHOLE], held)
    assert [event["event"] for event in told] == ["planned", "taken over", "begun", "finished"]
    assert "taken over from process" in sentence(told[1])
    assert active_leases(held) == []


def test_15_6_a_run_batch_without_progress_is_reported_once_until_its_next_round(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "QUIET_AFTER", 0.2)
    told: list[dict] = []

    class Hanging(Scripted):
        turn = 0

        def finished(self, timeout):
            self.turn += 1
            time.sleep(0.05)
            if self.turn == 10:
                self.progress(WHOLE.name, 1, 2, None)
            return super().finished(timeout) if self.turn == 20 else []

    with Runner(Hanging(), told.append) as running:
        running.train([WHOLE], Store(tmp_path))
    assert [event["event"] for event in told] == ["planned", "begun", "quiet", "round", "quiet", "finished"]
    assert sentence({**told[2], "seconds": 360}) == "fedavg on digits, 2 seeds: no progress for 6 min 00 s"


def test_15_6_the_live_view_shows_trouble(monkeypatch):
    stream = terminal(monkeypatch)
    monkeypatch.setattr(lease, "QUIET_AFTER", 0.0)
    other = {"run_batch": "b", "text": "apfl on digits", "pid": 7, "host": "elsewhere", "age": 65.0, "stalled": True,
             "worker": None, "stopped": None}  # fmt: skip
    with listening(View.LIVE) as listener:
        for event in (PLANNED, BEGUN, {"event": "waiting", **other}):
            listener(event)
        time.sleep(0.3)
        listener({**BEGUN, "event": "stopped", "worker": 4712})
        time.sleep(0.3)
    assert "no progress for 0 s" in stream.getvalue()
    assert "stalled, process 4712 is stopped; continue or end it" in stream.getvalue()
    assert "stalled: process 4712 is stopped" in stream.getvalue()
    assert "process 7 on elsewhere, which is stalled: no heartbeat for 1 min 05 s" in " ".join(
        stream.getvalue().split()
    )


def test_15_6_a_stopped_process_that_holds_the_lock_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LOCK_TIMEOUT", 0.1)
    with FileLock(tmp_path / ".lock"), pytest.raises(SilobenchError) as error:
        claims(Store(tmp_path))
    assert str(error.value).startswith(f"{tmp_path / '.lock'}: another process has held this lock for ")


@pytest.mark.slow
def test_15_6_the_run_batch_of_a_stopped_process_is_stolen_and_both_write_equal_records(tmp_path):
    toy(tmp_path / "uncut", "--run-batches", "3")
    uncut, store = contents(tmp_path / "uncut"), Store(tmp_path / "runs")
    with begun(store.path, "--run-batches", "3", "--seconds", "4") as stopped:
        until_it_trains(store.path)
        stop(stopped, store)
        with begun(store.path, "--run-batches", "3") as waiting:
            assert waiting.stdout is not None
            event = json.loads(waiting.stdout.readline())
            assert (event["event"], event["pid"], event["stalled"]) == ("waiting", stopped.pid, True)
            age(store, 60)
            thief = toy(store.path, "--run-batches", "3", "--steal")
            assert waiting.wait(60) == 0
        assert json.loads(thief.stdout.splitlines()[1])["event"] == "taken over"
        assert contents(store.path) == uncut
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(120) == 0
    print(f"\n15.6: {len(uncut)} run batches, recorded {len(costs(store.path))} times, the same bytes")
    assert contents(store.path) == uncut
    assert active_leases(store) == []


@pytest.mark.slow
def test_15_6_a_stopped_sweep_is_shown_by_status_and_finished_with_steal(silobench, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    uncut, cut = tmp_path / "uncut", tmp_path / "cut"
    subprocess.run(command(uncut, study), check=True, capture_output=True)
    store = Store(cut / "runs")
    with subprocess.Popen(command(cut, study), stdout=subprocess.DEVNULL, text=True) as stopped:
        until_it_trains(store.path)
        stop(stopped, store)
        _, out, _ = silobench("status", "--store", store.path)
        assert f"process {stopped.pid} on " in out
        assert f"stalled: process {stopped.pid} is stopped" in out
        lines = [*command(cut, study)[:-1], "--progress", "lines", "--steal"]
        thief = subprocess.run(lines, check=True, capture_output=True, text=True)
        (taken,) = [line for line in thief.stderr.splitlines() if "taken over" in line]
        print(f"\n15.6: {taken}")
        assert made(cut) == made(uncut)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(120) == 0
    assert made(cut) == made(uncut)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGKILL])
def test_15_6_a_stopped_worker_is_stalled_at_once_until_it_is_continued_or_killed(tmp_path, silobench, number):
    """A worker that was killed is replaced, and its run batch is tried again."""
    store, stage, told, out = Store(tmp_path / "runs"), Stage.at(tmp_path / "stage", seed1="wait"), [], ""

    def tell(event: dict) -> None:
        nonlocal out
        told.append(event["event"])
        if event["event"] == "stopped":
            (worker,) = stage.waiting()
            assert event["worker"] == worker
            wait_for(lambda: active_leases(store)[0]["stopped"] == worker)  # the next heartbeat
            out = silobench("status", "--store", store.path)[1]
            holder = f"worker {worker} of process {os.getpid()} on {lease._holder()['host']}"
            assert out.splitlines()[2].endswith(f"{holder}  stalled: process {worker} is stopped")
            stage.go()
            os.kill(worker, number)

    class Stopped(ProcessExecutor):
        """Stops the worker of the first run batch as soon as it trains."""

        def finished(self, timeout):
            if "stopped" not in told:
                (worker,) = stage.waiting()
                os.kill(worker, signal.SIGSTOP)
            return super().finished(timeout)

    with Runner(lambda progress: Stopped(1, stage, progress), tell) as running:
        running.train([WHOLE], store)
    print(f"\n15.6: {out.splitlines()[2].strip()}")
    attempts = 1 if number == signal.SIGCONT else 2
    assert [event for event in told if event != "round"] == [
        "planned", "begun", "stopped", *["begun"] * (attempts - 1), "finished",
    ]  # fmt: skip
    here = InProcessExecutor(Stage.at(tmp_path / "here"), lambda *progress: None)
    with Runner(lambda progress: here) as running:
        running.train([WHOLE], Store(tmp_path / "uncut"))
    assert contents(store.path) == contents(tmp_path / "uncut")


@pytest.fixture
def sleeper():
    """Yield a stopped process."""
    with subprocess.Popen(["sleep", "600"], text=True) as process:
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: lease._stat(process.pid)[0] == "T")
        yield process
        process.kill()


def test_15_6_a_stopped_process_or_worker_of_this_machine_is_stalled_at_once(tmp_path, sleeper):
    store, pid = Store(tmp_path), sleeper.pid
    write(tmp_path, "a", worker=pid)
    write(tmp_path, "b", pid=pid, started=lease._started(pid), worker=os.getpid())
    write(tmp_path, "c", host="elsewhere", worker=pid)
    write(tmp_path, "d", worker=os.getpid())
    found = {each["run_batch"]: (each["stalled"], each["stopped"]) for each in active_leases(store)}
    assert found == {"a": (True, pid), "b": (True, pid), "c": (False, None), "d": (False, None)}
    with Leases(store) as leases:
        assert leases.claim("e", {})
        assert leases.stopped() == {}
        leases.note("e", worker=pid)
        assert leases.stopped() == {"e": pid}
        sleeper.send_signal(signal.SIGCONT)
        wait_for(lambda: leases.stopped() == {})


def test_15_6_a_stopped_worker_is_reported_once_until_it_continues(tmp_path, sleeper):
    told: list[dict] = []

    class WithWorker(Scripted):
        turn = 0

        def submit(self, run_batch):
            super().submit(run_batch)
            return sleeper.pid

        def finished(self, timeout):
            self.turn += 1
            state = {3: signal.SIGCONT, 5: signal.SIGSTOP}.get(self.turn)
            if state is not None:
                sleeper.send_signal(state)
                wait_for(lambda: (lease._stat(sleeper.pid)[0] == "T") == (state == signal.SIGSTOP))
            return super().finished(timeout) if self.turn == 8 else []

    with Runner(WithWorker(), told.append) as running:
        running.train([WHOLE], Store(tmp_path))
    assert [event["event"] for event in told] == ["planned", "begun", "stopped", "stopped", "finished"]
    expected = f"fedavg on digits, 2 seeds: stalled, process {sleeper.pid} is stopped; continue or end it"
    assert sentence(told[2]) == expected


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of the living processes that a process has started, directly or indirectly."""
    parents, commands = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(place.name)] = int(fields[1])
                commands[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: commands[child] for child in found - {pid}}


@pytest.mark.slow
def test_15_6_ray_workers_of_a_killed_command_end_with_it(tmp_path, monkeypatch):
    """Only two agents of Ray remain, which end a minute later, as docs/cluster.md says."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("rounds = 24", "rounds = 3000"))
    with subprocess.Popen([*command(tmp_path, study), "--executor", "ray", "--workers", "1"]) as process:
        wait_for(lambda: bool(list((tmp_path / "runs" / "snapshots").glob("*.safetensors"))))
        started = descendants(process.pid)
        process.kill()
    begin = time.monotonic()
    working = [pid for pid, line in started.items() if "_in_worker" in line or "raylet/raylet" in line]
    assert len(working) == 2
    wait_for(lambda: not any(alive(pid) for pid in working))
    left = [started[pid].split()[0] for pid in started if alive(pid)]
    print(f"\n15.6: of {len(started)} processes {len(left)} are left after {time.monotonic() - begin:.1f} s: {left}")
    assert all(name.endswith("Agent") or name == "ray::_ProgressBoard" for name in left)
