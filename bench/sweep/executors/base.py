"""The interface of executors, and how one run batch is trained with its errors turned into a result.

An executor takes run batches and returns their records, or the reason why there are none, as they finish. It writes
nothing: the process that started the sweep writes all records to one store.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bench import machine
from bench.sweep import training
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import WorkerSettings
from bench.types import SilobenchError

Progress = Callable[[str, int, int, float | None], None]  # run batch, rounds finished, rounds, best loss so far
PROGRESS_INTERVAL = 0.25  # seconds


@dataclass(frozen=True)
class BatchResult:
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

    def finished(self, timeout: float) -> list[BatchResult]:
        """What has ended since it was last asked, waiting up to ``timeout`` seconds for something."""

    def close(self, *, now: bool = False) -> None:
        """End all workers; ``now`` without waiting for what they do."""


def throttled(tell: training.Tell) -> training.Tell:
    """Return ``tell`` limited to one call in :data:`PROGRESS_INTERVAL` seconds; calls in between are dropped."""
    told = -math.inf

    def tell_seldom(finished: int, rounds: int, best: float | None) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= PROGRESS_INTERVAL:
            told = now
            tell(finished, rounds, best)

    return tell_seldom


def attempt(run_batch: PlannedBatch, site: WorkerSettings, tell: training.Tell) -> BatchResult:
    """Train a run batch; what goes wrong ends it and nothing else."""
    start = time.perf_counter()
    try:
        records = training.train(run_batch, site, tell)
    except Exception as error:
        return failure(run_batch, error)
    return BatchResult(run_batch, records, time.perf_counter() - start, machine.name())


def failure(run_batch: PlannedBatch, error: Exception) -> BatchResult:
    """The end of a run batch that raised ``error``."""
    if _out_of_memory(error):
        return BatchResult(run_batch, error="out of memory", lost=True)
    line = " ".join(str(error).split())
    if isinstance(error, SilobenchError):
        return BatchResult(run_batch, error=line)
    trace = "".join(traceback.format_exception(error))
    return BatchResult(run_batch, error=f"{type(error).__name__}: {line}", trace=trace)


def _out_of_memory(error: Exception) -> bool:
    """torch says so with an error of its own on a GPU, and in words on a CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "not enough memory")
    )
