"""Executors of this machine: in this process, or in worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from bench.sweep.executors.base import BatchResult, Progress, attempt, throttled
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import WorkerSettings


class InProcessExecutor:
    """One run batch after another, here; ends when :meth:`finished` returns."""

    def __init__(self, site: WorkerSettings, progress: Progress) -> None:
        self.site, self.progress = site, progress
        self._next: PlannedBatch | None = None

    @property
    def free(self) -> bool:
        return self._next is None

    def submit(self, run_batch: PlannedBatch) -> None:
        self._next = run_batch

    def finished(self, timeout: float) -> list[BatchResult]:
        if self._next is None:
            return []
        run_batch, self._next = self._next, None
        return [attempt(run_batch, self.site, partial(self.progress, run_batch.name))]

    def close(self, *, now: bool = False) -> None:
        pass


class ProcessExecutor:
    """Up to ``workers`` processes on this machine, each with a share of its cores, and of its GPUs where it has any.

    Each has a line of its own to this process: what one that dies leaves behind can neither hold up the others nor be
    taken for theirs.
    """

    def __init__(self, workers: int, site: WorkerSettings, progress: Progress) -> None:
        self.workers, self.site, self._progress = workers, site, progress
        self._started: list[_Worker] = []

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._started if worker.run_batch is not None]

    @property
    def free(self) -> bool:
        return len(self._busy) < self.workers

    def submit(self, run_batch: PlannedBatch) -> None:
        worker = next((each for each in self._started if each.run_batch is None), None)
        if worker is None:
            worker = _Worker(min(set(range(self.workers)) - {each.number for each in self._started}))
            self._started.append(worker)
        worker.run_batch = run_batch
        with suppress(OSError):  # it died since: then it will be found dead with the run batch
            worker.line.send((run_batch, self.site))

    def finished(self, timeout: float) -> list[BatchResult]:
        lines: dict[Any, _Worker] = {worker.line: worker for worker in self._busy}
        return [done for line in wait(list(lines), timeout) if (done := self._heard(lines[line]))]

    def _heard(self, worker: _Worker) -> BatchResult | None:
        """The end of what the worker was at; None if it only told how far that has come."""
        run_batch = worker.run_batch
        assert run_batch is not None
        try:
            told = worker.line.recv()
        except (EOFError, OSError):
            self._started.remove(worker)
            return BatchResult(run_batch, error=f"a worker process died (exit status {worker.end()})", lost=True)
        if isinstance(told, BatchResult):
            worker.run_batch = None
            return told
        self._progress(run_batch.name, *told)
        return None

    def close(self, *, now: bool = False) -> None:
        for worker in self._started:
            if now:
                worker.process.kill()
        for worker in self._started:
            worker.end()


class _Worker:
    """A process that trains one run batch after another, and what it is at."""

    def __init__(self, number: int) -> None:
        context = get_context("spawn")
        self.number = number
        self.run_batch: PlannedBatch | None = None
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid(), number), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> int | None:
        """Let it end after what it is at, and wait for that; its exit status."""
        self.line.close()
        self.process.join()
        return self.process.exitcode


def _serve(line: Connection, parent: int, number: int) -> None:
    """A worker's life: its share of the machine, and one run batch after another until nobody sends any."""
    # A terminal or batch system sends these to all processes at once; the one that asked hears them, and decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
    with suppress(EOFError, OSError):  # nobody listens any more
        while True:
            run_batch, site = line.recv()
            line.send(attempt(run_batch, site, throttled(lambda *progress: line.send(progress))))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
