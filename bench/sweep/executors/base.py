"""The interface of executors, and the training of one run batch with every error turned into a result.

An executor trains run batches and returns their records, or the reason why there are none, as they finish. It writes
no records: the process that started the sweep writes all of them to one store.
"""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bench import machine
from bench.sweep import training
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import WorkerSettings
from bench.types import SilobenchError

# Arguments: name of the run batch, rounds finished, rounds, lowest aggregated validation loss so far.
Progress = Callable[[str, int, int, float | None], None]
PROGRESS_INTERVAL = 0.25  # seconds
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


@dataclass(frozen=True)
class BatchResult:
    """The end of a run batch: its ``records``, or the ``error`` in one line.

    ``seconds`` is the training time and ``machine`` describes the machine. ``lost`` means that the worker died or ran
    out of memory, so that another attempt may succeed. ``trace`` is the traceback of an unexpected error. ``notes`` are
    warnings that training logged.
    """

    run_batch: PlannedBatch
    records: list[dict[str, Any]] | None = None
    seconds: float = 0.0
    machine: str = ""
    error: str | None = None
    lost: bool = False
    trace: str | None = None
    notes: tuple[str, ...] = ()


class Executor(Protocol):
    """An object that trains run batches; ``free`` tells whether it can start another one immediately."""

    @property
    def free(self) -> bool: ...

    def submit(self, run_batch: PlannedBatch) -> int | None:
        """Start a run batch; return the id of its worker process if this machine has one."""

    def finished(self, timeout: float) -> list[BatchResult]:
        """Return the run batches that ended since the last call; wait up to ``timeout`` seconds for the first."""

    def close(self, *, now: bool = False) -> None:
        """Stop all workers when their run batches have ended; with ``now``, stop them immediately."""


def throttled(tell: training.Tell) -> training.Tell:
    """Return ``tell`` limited to one call per :data:`PROGRESS_INTERVAL`; calls in between are dropped.

    Reporting every round could take longer than the round.
    """
    last = -math.inf

    def tell_sometimes(finished: int, rounds: int, best: float | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_INTERVAL:
            last = now
            tell(finished, rounds, best)

    return tell_sometimes


def attempt(run_batch: PlannedBatch, worker: WorkerSettings, tell: training.Tell) -> BatchResult:
    """Train a run batch; return every error as a result."""
    start = time.perf_counter()
    with _collected_warnings() as notes:
        try:
            records = training.train(run_batch, worker, tell)
        except Exception as error:
            return replace(failure(run_batch, error), notes=tuple(notes))
    return BatchResult(run_batch, records, time.perf_counter() - start, machine.description(), notes=tuple(notes))


class _Collector(logging.Handler):
    """Keeps the texts of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings that silobench logs until the block ends, instead of printing them in the worker."""
    logger, collector = logging.getLogger("bench"), _Collector()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield collector.texts
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate


def failure(run_batch: PlannedBatch, error: Exception) -> BatchResult:
    """Return the result of a run batch that raised ``error``."""
    if _out_of_memory(error):
        return BatchResult(run_batch, error="out of memory", lost=True)
    line = " ".join(str(error).split())
    if isinstance(error, SilobenchError):
        return BatchResult(run_batch, error=line)
    trace = "".join(traceback.format_exception(error))
    return BatchResult(run_batch, error=f"{type(error).__name__}: {line}", trace=trace)


def _out_of_memory(error: Exception) -> bool:
    """Tell whether memory ran out; torch has its own exception on a GPU and only a message on a CPU."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
