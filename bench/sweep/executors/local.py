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

PARENT_CHECK_INTERVAL = 0.5  # seconds


class InProcessExecutor:
    """Trains one run batch at a time in this process, inside :meth:`finished`."""

    def __init__(self, worker: WorkerSettings, progress: Progress) -> None:
        self.worker, self.progress = worker, progress
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
        return [attempt(run_batch, self.worker, partial(self.progress, run_batch.name))]

    def close(self, *, now: bool = False) -> None:
        pass


class ProcessExecutor:
    """Trains in up to ``workers`` processes of this machine, which share its cores, and its GPUs if it has any.

    Each process has its own connection to this one, so that a process that dies cannot block or confuse the others.
    """

    def __init__(self, workers: int, worker: WorkerSettings, progress: Progress) -> None:
        self.workers, self.worker, self._progress = workers, worker, progress
        self._started: list[_Process] = []

    @property
    def _busy(self) -> list[_Process]:
        return [process for process in self._started if process.run_batch is not None]

    @property
    def free(self) -> bool:
        return len(self._busy) < self.workers

    def submit(self, run_batch: PlannedBatch) -> int | None:
        process = next((each for each in self._started if each.run_batch is None), None)
        if process is None:
            process = _Process(min(set(range(self.workers)) - {each.number for each in self._started}))
            self._started.append(process)
        process.run_batch = run_batch
        with suppress(OSError):  # the process has died: `finished` will report the run batch as lost
            process.connection.send((run_batch, self.worker))
        return process.process.pid

    def finished(self, timeout: float) -> list[BatchResult]:
        processes: dict[Any, _Process] = {process.connection: process for process in self._busy}
        ready = wait(list(processes), timeout)
        return [result for connection in ready if (result := self._receive(processes[connection]))]

    def _receive(self, process: _Process) -> BatchResult | None:
        """Read a message; return the result of the process's run batch, or None for a progress message."""
        run_batch = process.run_batch
        assert run_batch is not None
        try:
            message = process.connection.recv()
        except (EOFError, OSError):
            self._started.remove(process)
            return BatchResult(run_batch, error=f"a worker process died (exit status {process.end()})", lost=True)
        if isinstance(message, BatchResult):
            process.run_batch = None
            return message
        self._progress(run_batch.name, *message)
        return None

    def close(self, *, now: bool = False) -> None:
        for process in self._started:
            if now:
                process.process.kill()
        for process in self._started:
            process.end()


class _Process:
    """A worker process, its connection and its current run batch."""

    def __init__(self, number: int) -> None:
        context = get_context("spawn")
        self.number = number
        self.run_batch: PlannedBatch | None = None
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid(), number), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> int | None:
        """Let the process finish its run batch and end; return its exit status."""
        self.connection.close()
        self.process.join()
        return self.process.exitcode


def _serve(connection: Connection, parent: int, number: int) -> None:
    """Train run batches in a worker process until the parent closes the connection."""
    # A terminal or a batch system sends these signals to all processes at once; only the parent reacts to them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
    with suppress(EOFError, OSError):  # the parent has closed the connection
        while True:
            run_batch, worker = connection.recv()
            connection.send(attempt(run_batch, worker, throttled(lambda *progress: connection.send(progress))))


def _exit_with(parent: int) -> None:
    """Exit as soon as the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_INTERVAL)
    os._exit(1)
