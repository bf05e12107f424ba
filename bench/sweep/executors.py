"""Where populations are trained: in this process, in worker processes of this machine, or on a Ray cluster.

An executor takes populations and hands back, as they come, their records or why there are none. It writes nothing:
records go through the one store of the process that asked.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

from bench.sweep import work
from bench.sweep.plan import Population
from bench.sweep.work import Site
from bench.types import SilobenchError

Progress = Callable[[str, int, int, float | None], None]  # population, rounds finished, rounds, best loss so far


@dataclass(frozen=True)
class Done:
    """A population that has ended: its ``records`` and how long it took, or the ``error`` that ended it.

    ``lost`` says that its worker died, for want of memory perhaps, or that memory ran out.
    """

    population: Population
    records: list[dict[str, Any]] | None = None
    seconds: float = 0.0
    error: str | None = None
    lost: bool = False


class Executor(Protocol):
    """Trains populations; ``free`` says whether one more would begin at once."""

    @property
    def free(self) -> bool: ...

    def submit(self, population: Population) -> None: ...

    def finished(self, timeout: float) -> list[Done]:
        """What has ended since it was last asked, waiting up to ``timeout`` seconds for something."""

    def close(self, *, now: bool = False) -> None:
        """End all workers; ``now`` without waiting for what they do."""


class InProcess:
    """One population after another, here; ends when :meth:`finished` returns."""

    def __init__(self, site: Site, progress: Progress) -> None:
        self.site, self.progress = site, progress
        self._next: Population | None = None

    @property
    def free(self) -> bool:
        return self._next is None

    def submit(self, population: Population) -> None:
        self._next = population

    def finished(self, timeout: float) -> list[Done]:
        if self._next is None:
            return []
        population, self._next = self._next, None
        return [attempt(population, self.site, partial(self.progress, population.name))]

    def close(self, *, now: bool = False) -> None:
        pass


class Processes:
    """``workers`` processes on this machine, each with a share of its cores, and of its GPUs where there are any."""

    def __init__(self, workers: int, site: Site, progress: Progress) -> None:
        self.workers, self.site = workers, site
        self._context = get_context("spawn")
        self._told: Any = self._context.SimpleQueue()
        self._progress = progress
        self._running: dict[Future[Done], Population] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        self._open()

    def _open(self) -> None:
        number = self._context.Value("i", 0)
        self._pool = ProcessPoolExecutor(
            self.workers, mp_context=self._context, initializer=_begin, initargs=(self._told, os.getpid(), number)
        )

    def _listen(self) -> None:
        while (told := self._told.get()) is not None:
            self._progress(*told)

    @property
    def free(self) -> bool:
        return len(self._running) < self.workers

    def submit(self, population: Population) -> None:
        self._running[self._pool.submit(_in_worker, population, self.site)] = population

    def finished(self, timeout: float) -> list[Done]:
        ended, _ = wait(self._running, timeout, FIRST_COMPLETED)
        done = [self._outcome(future) for future in ended]
        if any(each.lost and each.error == DIED for each in done):
            # One dead worker ends the pool: what the others were at is lost with it.
            done += [Done(population, error=DIED, lost=True) for population in self._running.values()]
            self._running.clear()
            self.close(now=True)
            self._open()
        return done

    def _outcome(self, future: Future[Done]) -> Done:
        population = self._running.pop(future)
        try:
            return future.result()
        except BrokenProcessPool:
            return Done(population, error=DIED, lost=True)

    def close(self, *, now: bool = False) -> None:
        if now:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)


DIED = "a worker process died"
_told: Any = None


def _begin(told: Any, parent: int, number: Any) -> None:
    """A new worker: its share of the machine, no signals of the terminal, and no life without its parent."""
    global _told
    _told = told
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with number.get_lock():
        mine, number.value = number.value, number.value + 1
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_device(mine % torch.cuda.device_count())


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _in_worker(population: Population, site: Site) -> Done:
    return attempt(population, site, lambda *progress: _told.put((population.name, *progress)))


def attempt(population: Population, site: Site, tell: work.Tell) -> Done:
    """Train a population; what goes wrong ends it and nothing else."""
    start = time.perf_counter()
    try:
        records = work.train(population, site, tell)
    except Exception as error:
        if _out_of_memory(error):
            return Done(population, error="out of memory", lost=True)
        kind = "" if isinstance(error, SilobenchError) else f"{type(error).__name__}: "
        return Done(population, error=kind + " ".join(str(error).split()))
    return Done(population, records, time.perf_counter() - start)


def _out_of_memory(error: Exception) -> bool:
    """torch says so with an error of its own on a GPU, and in words on a CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "not enough memory")
    )
