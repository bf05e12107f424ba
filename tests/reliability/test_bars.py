"""Reliability requirements of long sweeps; each test prints its number (`pytest -s tests/reliability`)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench import spec
from bench.sweep.lease import active_leases
from bench.sweep.store import Store
from bench.types import SpecError
from tests.reliability import toy_sweep
from tests.spec.example import changed
from tests.spec.sections.test_faults import BAD

pytestmark = pytest.mark.slow
TOY = [sys.executable, str(Path(toy_sweep.__file__))]


def toy(store: Path, *options: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOY, str(store), *options], check=check, capture_output=True, text=True, env={**os.environ, **environment}
    )


@contextmanager
def begun(store: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a toy sweep that has started, and kill it after the block."""
    command = [*TOY, str(store), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def until_it_trains(store: Path) -> None:
    while not active_leases(Store(store)):
        time.sleep(0.02)


def contents(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((store / "records").iterdir())}


def costs(store: Path) -> list[str]:
    return [cost["population"] for cost in Store(store).costs()]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory) -> dict[str, bytes]:
    store = tmp_path_factory.mktemp("uncut")
    toy(store)
    return contents(store)


def test_r1_sweeps_killed_fifty_times_and_repeated_give_the_records_of_an_uninterrupted_one(tmp_path, uncut):
    """kill -9 at any moment loses only the running batches and needs no manual step."""
    draw, store, misses = random.Random(1), tmp_path / "0", 0
    for attempt in range(50):
        with begun(store) as process:
            time.sleep(draw.uniform(0, 0.25))
            process.kill()
            ended = process.wait() == 0
        if ended or attempt == 49:
            toy(store)
            misses += contents(store) != uncut
            store = tmp_path / str(attempt + 1)
    print(f"\nR1: 50 kills, {misses} stores that differ from that of an uninterrupted sweep")
    assert misses == 0


def test_r4_sixteen_processes_on_one_store_train_each_run_once(tmp_path, uncut):
    with ExitStack() as stack:
        processes = [stack.enter_context(begun(tmp_path)) for _ in range(16)]
        assert [process.wait() for process in processes] == [0] * 16
    print(f"\nR4: 16 processes, {len(costs(tmp_path))} run batches trained of {len(uncut)}")
    assert len(costs(tmp_path)) == len(uncut)
    assert contents(tmp_path) == uncut
    assert active_leases(Store(tmp_path)) == []


def test_r5_the_lease_of_a_dead_process_is_taken_over(tmp_path, uncut):
    with begun(tmp_path, "--seconds", "30"):
        until_it_trains(tmp_path)
    begin = time.monotonic()
    toy(tmp_path)
    print(f"\nR5: taken over and finished {time.monotonic() - begin:.1f} s after its holder died")
    assert contents(tmp_path) == uncut


def test_r7_a_full_disk_stops_cleanly_and_a_repetition_uses_the_records(tmp_path, uncut):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", tmp_path], check=False).returncode == 0
    limited = tmp_path / "store"
    try:
        # Without the right to mount, a limit on the size of files replaces the small disk.
        environment = {} if mounted else {"TOY_LIMIT": "600"}
        full = toy(limited, "--run-batches", "40", check=False, **environment)
        kept = len(Store(limited).records())
        print(f"\nR7: stopped with exit status {full.returncode} and {kept} records: {full.stderr.strip()[-90:]}")
        assert full.returncode == 2
        assert "cannot be written" in full.stderr
        assert len(full.stderr.strip().splitlines()) == 1
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=8m", tmp_path], check=True)
        toy(limited, "--run-batches", "40")
        assert len(Store(limited).records()) == 80
    finally:
        if mounted:
            subprocess.run(["umount", tmp_path], check=True)


def test_r11_malformed_studies_are_refused_with_file_key_and_nearest_name(tmp_path):
    file, slowest = tmp_path / "study.toml", 0.0
    for old, new, expected in BAD.values():
        file.write_text(changed(old, new))
        begin = time.perf_counter()
        with pytest.raises(SpecError, match=r"study\.toml") as error:
            spec.read(file)
        slowest = max(slowest, time.perf_counter() - begin)
        assert expected in str(error.value)
    print(f"\nR11: {len(BAD)} malformed studies refused, the slowest in {slowest:.2f} s")
    assert len(BAD) >= 40


def test_r13_records_depend_neither_on_order_nor_workers_nor_hash_seeds(tmp_path, uncut):
    ways = [(["--backwards"], "1"), (["--workers", "2"], "2"), ([], "3")]
    for number, (options, seed) in enumerate(ways):
        toy(tmp_path / str(number), *options, PYTHONHASHSEED=seed)
        assert contents(tmp_path / str(number)) == uncut
    print(f"\nR13: {len(ways) + 1} ways, the same {len(uncut)} files of records")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_r18_the_first_signal_finishes_running_batches_and_stops(tmp_path, uncut, number, workers):
    with begun(tmp_path, "--seconds", "0.6", "--workers", workers) as process:
        until_it_trains(tmp_path)
        process.send_signal(number)
        assert process.wait(120) == 130
    kept = len(costs(tmp_path))
    print(f"\nR18: {number.name}, {workers} workers: {kept} run batches finished, then stopped")
    assert 1 <= kept <= 2
    assert active_leases(Store(tmp_path)) == []
    toy(tmp_path)
    assert contents(tmp_path) == uncut


@pytest.mark.parametrize("workers", ["0", "2"])
def test_r18_the_second_signal_stops_immediately_and_leaves_no_process(tmp_path, workers):
    with begun(tmp_path, "--seconds", "60", "--workers", workers) as process:
        until_it_trains(tmp_path)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 131
    print(f"\nR18: stopped {time.monotonic() - begin:.1f} s after being asked twice")
    assert active_leases(Store(tmp_path)) == []
    deadline = time.monotonic() + 60
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members(process.pid) == []


def members(group: int) -> list[int]:
    """Return the living processes of a process group."""
    found = []
    for state in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = state.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(state.parent.name))
    return found


def test_workers_exit_after_their_parent_was_killed(tmp_path):
    with begun(tmp_path, "--seconds", "60", "--workers", "2") as process:
        until_it_trains(tmp_path)
    deadline = time.monotonic() + 60
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members(process.pid) == []


def test_r24_memory_and_open_files_are_constant_over_ten_thousand_runs(tmp_path):
    done = toy(tmp_path, "--run-batches", "1000", "--runs", "10", "--seconds", "0", "--report")
    marks = [tuple(map(int, line.split())) for line in done.stdout.splitlines()[1:]]
    memory, files = zip(*marks[1:], strict=True)  # the first tenth fills caches
    begin = time.perf_counter()
    records = len(Store(tmp_path).records())
    listed = time.perf_counter() - begin
    print(f"\nR24: {records} runs, memory {min(memory) / 1e6:.1f} to {max(memory) / 1e6:.1f} MB, "
          f"{min(files)} to {max(files)} open files; read again in {listed:.2f} s")  # fmt: skip
    assert records == 10_000
    assert max(memory) <= 1.05 * min(memory)
    assert max(files) - min(files) <= 1
