"""Run batches trained and kept: claimed, handed to an executor, recorded; whatever ends one leaves the others alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.files import write_whole
from bench.sweep.executors.base import BatchResult, Executor, Progress
from bench.sweep.lease import Leases
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import Store
from bench.types import SilobenchError

Event = dict[str, Any]
POLL = 0.5  # seconds between two looks at what another process is training


class StoppedError(SilobenchError):
    """Training was asked to stop, and did so with every finished run on record."""

    status: ClassVar[int] = 130


class FailedError(SilobenchError):
    """Some run batches failed; all others are on record."""

    status: ClassVar[int] = 1


@dataclass
class Runner:
    """Trains run batches with an executor; ``tell`` hears of everything that happens, ``stop`` ends it between them.

    The executor is made for the first run batches and kept until the block ends, so that the workers of a search that
    asks for settings in batches, and what they have loaded, last for all of them.

    Events are dictionaries with the key "event": "planned" (run batches, runs), "begun", "round" (round, rounds,
    loss), "finished" (runs, diverged, seconds), "split" and "failed" (error), all but the first with the "run batch"
    and what it is ("text").
    """

    make_executor: Callable[[Progress], Executor]
    tell: Callable[[Event], None] = lambda event: None
    stop: threading.Event = field(default_factory=threading.Event)
    _executor: Executor | None = field(default=None, init=False)
    _leases: Leases | None = field(default=None, init=False)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def train(self, run_batches: Sequence[PlannedBatch], store: Store) -> None:
        """Train and record every run batch that no other process trains; wait for those.

        Raises :class:`StoppedError` and :class:`FailedError`, and :class:`SilobenchError` when records cannot be kept.
        """
        runs = sum(len(run_batch.runs) for run_batch in run_batches)
        self.tell({"event": "planned", "run_batches": len(run_batches), "runs": runs})
        with Leases(store) as self._leases:
            self._executor = self._executor or self.make_executor(self._progress)
            work = _Round(self, run_batches, store, self._leases, self._executor)
            try:
                work.run()
            except BaseException:
                # Before the leases are given back: nobody shall begin what a worker is still at.
                self._close(now=True)
                raise
        if work.left:
            raise StoppedError("stopped; what is finished is on record, repeat the command to go on")
        if work.failed:
            first, error = work.failed[0]
            others = f"{len(work.failed)} of {len(run_batches)} run batches failed, all others are on record"
            raise FailedError(f"{others}; the first ({text(first)}): {error}")

    def _progress(self, name: str, finished: int, rounds: int, loss: float | None) -> None:
        assert self._leases is not None
        self._leases.note(name, round=finished, rounds=rounds, loss=loss)
        self.tell({"event": "round", "run_batch": name, "round": finished, "rounds": rounds, "loss": loss})

    def _close(self, *, now: bool = False) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close(now=now)


class _Round:
    """What is still to be trained, is being trained, and has failed."""

    def __init__(
        self, runner: Runner, run_batches: Sequence[PlannedBatch], store: Store, leases: Leases, executor: Executor
    ) -> None:
        self.runner, self.store, self.leases, self.executor = runner, store, leases, executor
        self.queue = deque(run_batches)
        self.elsewhere: deque[PlannedBatch] = deque()  # trained by other processes
        self.running = 0
        self.losses: dict[str, int] = {}  # how often a run batch's worker died
        self.failed: list[tuple[PlannedBatch, str]] = []

    @property
    def left(self) -> bool:
        """Whether some run batches are not in work and not ended."""
        return bool(self.queue or self.elsewhere)

    def run(self) -> None:
        while True:
            stopped = self.runner.stop.is_set()
            while self.queue and self.executor.free and not stopped:
                self._begin(self.queue.popleft())
            if self.running:
                for done in self.executor.finished(POLL):
                    self._end(done)
            elif stopped or not self.left:
                return
            else:
                time.sleep(POLL)
            if not self.queue:
                self.queue, self.elsewhere = self.elsewhere, self.queue

    def _begin(self, run_batch: PlannedBatch) -> None:
        """Train the run batch, unless it is on record by now or another process has it."""
        if not self.leases.claim(run_batch.name, {"text": text(run_batch), "runs": len(run_batch.runs)}):
            self.elsewhere.append(run_batch)
        elif self.store.holds(run_batch.name):
            self.leases.release(run_batch.name)
        else:
            self._tell("begun", run_batch, runs=len(run_batch.runs))
            self.executor.submit(run_batch)
            self.running += 1

    def _end(self, done: BatchResult) -> None:
        self.running -= 1
        run_batch = done.run_batch
        trace = self._trace(done)
        if done.records is not None:
            self.store.write(done.records, seconds=done.seconds, machine=done.machine)
            diverged = sum(record["status"] == "diverged" for record in done.records)
            self._tell("finished", run_batch, runs=len(done.records), diverged=diverged, seconds=done.seconds)
        elif done.lost:
            self._again(run_batch, done.error or "")
        else:
            self._fail(run_batch, (done.error or "") + (f"; traceback in {trace}" if done.trace else ""))
        self.leases.release(run_batch.name)

    def _again(self, run_batch: PlannedBatch, error: str) -> None:
        """A dead worker may have been somebody's mistake once; the second time, or out of memory, half is tried."""
        died = self.losses[run_batch.name] = self.losses.get(run_batch.name, 0) + 1
        if died < 2 and "memory" not in error:
            self.queue.appendleft(run_batch)
        elif halves := run_batch.halves():
            self._tell("split", run_batch, error=error)
            self.queue.extendleft(reversed(halves))
        else:
            self._fail(run_batch, f"{error}, and it cannot be halved; give it a machine with more memory")

    def _trace(self, done: BatchResult) -> Path:
        """The file of the run batch's traceback, which is there for as long as its last attempt ended with one."""
        file = self.store.path / "failed" / f"{done.run_batch.name}.txt"
        try:
            if done.trace is None:
                file.unlink(missing_ok=True)
            else:
                write_whole(file, f"{text(done.run_batch)}\n\n{done.trace}".encode())
        except OSError as error:
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); mend that and repeat the command"
            ) from error
        return file

    def _fail(self, run_batch: PlannedBatch, error: str) -> None:
        self.failed.append((run_batch, error))
        self._tell("failed", run_batch, error=error)

    def _tell(self, event: str, run_batch: PlannedBatch, **more: Any) -> None:
        self.runner.tell({"event": event, "run_batch": run_batch.name, "text": text(run_batch), **more})


def text(run_batch: PlannedBatch) -> str:
    """What a run batch is, in a few words."""
    run, settings, seeds = run_batch.runs[0], len(run_batch.settings), len(run_batch.seeds)
    what = f"{run.algorithm['name']} on {run.data['name']}" + (f", {settings} settings" if settings > 1 else "")
    if seeds == 1:
        return f"{what}, seed {run_batch.seeds[0]}"
    return f"{what} x {seeds} seeds" if settings > 1 else f"{what}, {seeds} seeds"
