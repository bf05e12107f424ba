"""Where run batches are trained: in this process, in worker processes of this machine, or on a Ray cluster.

An executor takes run batches and hands back, as they come, their records or why there are none. It writes nothing:
records go through the one store of the process that asked.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from bench import machine
from bench.sweep import work
from bench.sweep.plan import PlannedBatch
from bench.sweep.work import Site
from bench.types import SilobenchError

Progress = Callable[[str, int, int, float | None], None]  # run batch, rounds finished, rounds, best loss so far
SELDOM = 0.25  # seconds


@dataclass(frozen=True)
class Done:
    """A run batch that has ended: its ``records``, how long it took and on what machine, or the ``error``, one line.

    ``lost`` says that its worker died, for want of memory perhaps, or that memory ran out. ``trace`` is the traceback
    of an error that nobody foresaw.
    """

    run_batch: PlannedBatch
    records: list[dict[str, Any]] | None = None
    seconds: float = 0.0
    machine: str = ""
    error: str | None = None
    lost: bool = False
    trace: str | None = None


class Executor(Protocol):
    """Trains run batches; ``free`` says whether one more would begin at once."""

    @property
    def free(self) -> bool: ...

    def submit(self, run_batch: PlannedBatch) -> None: ...

    def finished(self, timeout: float) -> list[Done]:
        """What has ended since it was last asked, waiting up to ``timeout`` seconds for something."""

    def close(self, *, now: bool = False) -> None:
        """End all workers; ``now`` without waiting for what they do."""


class InProcess:
    """One run batch after another, here; ends when :meth:`finished` returns."""

    def __init__(self, site: Site, progress: Progress) -> None:
        self.site, self.progress = site, progress
        self._next: PlannedBatch | None = None

    @property
    def free(self) -> bool:
        return self._next is None

    def submit(self, run_batch: PlannedBatch) -> None:
        self._next = run_batch

    def finished(self, timeout: float) -> list[Done]:
        if self._next is None:
            return []
        run_batch, self._next = self._next, None
        return [attempt(run_batch, self.site, partial(self.progress, run_batch.name))]

    def close(self, *, now: bool = False) -> None:
        pass


class Processes:
    """Up to ``workers`` processes on this machine, each with a share of its cores, and of its GPUs where it has any.

    Each has a line of its own to this process: what one that dies leaves behind can neither hold up the others nor be
    taken for theirs.
    """

    def __init__(self, workers: int, site: Site, progress: Progress) -> None:
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

    def finished(self, timeout: float) -> list[Done]:
        lines: dict[Any, _Worker] = {worker.line: worker for worker in self._busy}
        return [done for line in wait(list(lines), timeout) if (done := self._heard(lines[line]))]

    def _heard(self, worker: _Worker) -> Done | None:
        """The end of what the worker was at; None if it only told how far that has come."""
        run_batch = worker.run_batch
        assert run_batch is not None
        try:
            told = worker.line.recv()
        except (EOFError, OSError):
            self._started.remove(worker)
            return Done(run_batch, error=f"a worker process died (exit status {worker.end()})", lost=True)
        if isinstance(told, Done):
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
            line.send(attempt(run_batch, site, seldom(lambda *progress: line.send(progress))))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def seldom(tell: work.Tell) -> work.Tell:
    """Tells the latest every :data:`SELDOM` seconds: telling of each round could take longer than the round."""
    told = -math.inf

    def tell_seldom(finished: int, rounds: int, best: float | None) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= SELDOM:
            told = now
            tell(finished, rounds, best)

    return tell_seldom


def attempt(run_batch: PlannedBatch, site: Site, tell: work.Tell) -> Done:
    """Train a run batch; what goes wrong ends it and nothing else."""
    start = time.perf_counter()
    try:
        records = work.train(run_batch, site, tell)
    except Exception as error:
        return failure(run_batch, error)
    return Done(run_batch, records, time.perf_counter() - start, machine.name())


def failure(run_batch: PlannedBatch, error: Exception) -> Done:
    """The end of a run batch that raised ``error``."""
    if _out_of_memory(error):
        return Done(run_batch, error="out of memory", lost=True)
    line = " ".join(str(error).split())
    if isinstance(error, SilobenchError):
        return Done(run_batch, error=line)
    trace = "".join(traceback.format_exception(error))
    return Done(run_batch, error=f"{type(error).__name__}: {line}", trace=trace)


def _out_of_memory(error: Exception) -> bool:
    """torch says so with an error of its own on a GPU, and in words on a CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "not enough memory")
    )
