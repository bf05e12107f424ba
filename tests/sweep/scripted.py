"""Run batches of a toy federation, an executor without training, and worker settings that follow a script."""

from __future__ import annotations

import itertools
import os
import platform
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.sweep.executors.base import BatchResult
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import FORMAT, Store
from bench.sweep.training import WorkerSettings
from bench.types import Budget, Federation, RunSpec
from tests.train import toy


def federation() -> Federation:
    return toy.federation(features=3)


def run_batch(
    *seeds: int, rates: tuple[float, ...] = (0.1,), rounds: int = 2, algorithm: str = "fedavg"
) -> PlannedBatch:
    """Return settings x seeds on the toy federation, under the name of an existing data set."""
    data = {"name": "digits", "options": {}, "fingerprint": federation().fingerprint, "by_seed": []}
    runs = [
        RunSpec(data, {"name": "fedavg", "options": {}}, {"name": "logistic", "options": {}}, {"lr": rate},
                Budget(rounds, local_steps=2, batch_size=4), seed)
        for rate, seed in itertools.product(rates, seeds)
    ]  # fmt: skip
    return PlannedBatch(tuple({"lr": rate} for rate in rates), seeds, tuple(runs))


def record(run: RunSpec) -> dict:
    return {"format": FORMAT, "run": run.hash, "status": "finished", "path": "stack"}


def trained(run_batch: PlannedBatch) -> BatchResult:
    return BatchResult(run_batch, [record(run) for run in run_batch.runs], 1.0, "Plan9 mips, 64 cores")


def contents(store: Store) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (store.path / "records").iterdir()}


class Scripted:
    """An executor of ``room`` workers; ``end`` returns the result of each run batch, the oldest first."""

    def __init__(self, end: Callable[[PlannedBatch], BatchResult] = trained, room: int = 1) -> None:
        self.end, self.room = end, room
        self.begun: list[PlannedBatch] = []
        self.running: list[PlannedBatch] = []
        self.closed: list[bool] = []

    def __call__(self, progress: Callable) -> Scripted:
        self.progress = progress
        return self

    @property
    def free(self) -> bool:
        return len(self.running) < self.room

    def submit(self, run_batch: PlannedBatch) -> None:
        assert self.free
        self.begun.append(run_batch)
        self.running.append(run_batch)

    def finished(self, timeout: float) -> list[BatchResult]:
        return [self.end(self.running.pop(0))]

    def close(self, *, now: bool = False) -> None:
        self.closed.append(now)


@dataclass(frozen=True)
class Stage(WorkerSettings):
    """Settings of a worker that performs an action before it returns data; the script has the action for each seed.

    "raise" and "memory" raise an error, "die" kills the worker always and "die once" the first time, "wait" waits for
    :meth:`go`, "elsewhere" changes the name of the machine.
    """

    script: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path, **script: str) -> Stage:
        folder.mkdir()
        return cls(folder, None, script={int(seed.removeprefix("seed")): act for seed, act in script.items()})

    def told(self, **script: str) -> Stage:
        return replace(self, script={int(seed.removeprefix("seed")): act for seed, act in script.items()})

    def federation(self, run: RunSpec) -> Federation:
        act = self.script.get(run.seed, "")
        if act == "raise":
            raise ValueError("no such\nthing")
        if act == "memory":
            raise MemoryError
        if act == "die" or (act == "die once" and self._first(run)):
            os.kill(os.getpid(), signal.SIGKILL)
        if act == "elsewhere":
            platform.machine = lambda: "elsewhere"
        if act == "wait":
            (self.root / f"{os.getpid()}.pid").touch()
            wait_for(lambda: (self.root / "go").exists())
        return federation()

    def _first(self, run: RunSpec) -> bool:
        mark = self.root / f"seed{run.seed}"
        seen = mark.exists()
        mark.touch()
        return not seen

    def waiting(self, count: int = 1) -> list[int]:
        """Return the ids of waiting processes, as soon as there are ``count``."""
        wait_for(lambda: len(list(self.root.glob("*.pid"))) >= count)
        return [int(file.stem) for file in self.root.glob("*.pid")]

    def go(self) -> None:
        (self.root / "go").touch()


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Tell whether the process is running and not a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
