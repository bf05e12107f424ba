"""The runner: claims run batches, passes them to an executor and records them; a failure affects its run batch only."""

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
from bench.sweep.lease import QUIET_AFTER, Leases, process_of
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import Store
from bench.types import SilobenchError

Event = dict[str, Any]
POLL = 0.5  # seconds between two checks of leases that other processes hold
WAIT_REPORTED_AFTER = 5.0  # seconds
ATTEMPTS = 2  # of a run batch whose worker dies, before it is split


class StoppedError(SilobenchError):
    """Training stopped on request; every finished run is recorded."""

    status: ClassVar[int] = 130


class FailedError(SilobenchError):
    """Some run batches failed; all others are recorded."""

    status: ClassVar[int] = 1


@dataclass
class Runner:
    """Trains run batches with an executor; ``tell`` receives events, and setting ``stop`` ends it between run batches.

    The executor is made for the first run batches and kept until the block ends. A search that asks for settings in
    several batches so keeps its workers, and the data that they have loaded.

    With ``steal``, run batches of stalled processes are taken over.

    Events are dictionaries with the key "event": "note" (text), "planned" (run_batches, runs), "begun" (runs), "round"
    (round, rounds, loss), "finished" (runs, diverged, seconds), "split" (error), "failed" (runs, error), "quiet"
    (seconds without a new round), "stopped" (worker), "waiting" for another process and "taken over" from it (pid,
    worker, host, age of its last heartbeat, stalled, stopped process). All but the first two have the name of the run
    batch ("run_batch"), and all of these but "round" its description ("text").
    """

    make_executor: Callable[[Progress], Executor]
    tell: Callable[[Event], None] = lambda event: None
    stop: threading.Event = field(default_factory=threading.Event)
    steal: bool = False
    _executor: Executor | None = field(default=None, init=False)
    _leases: Leases | None = field(default=None, init=False)
    _noted: set[str] = field(default_factory=set, init=False)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def train(self, run_batches: Sequence[PlannedBatch], store: Store) -> None:
        """Train and record every run batch that no other process trains; wait for the others.

        Raise :class:`StoppedError`, :class:`FailedError`, or :class:`SilobenchError` if records cannot be written.
        """
        runs = sum(len(run_batch.runs) for run_batch in run_batches)
        self.tell({"event": "planned", "run_batches": len(run_batches), "runs": runs})
        with Leases(store) as self._leases:
            self._executor = self._executor or self.make_executor(self._progress)
            queue = _Queue(self, run_batches, store, self._leases, self._executor)
            try:
                queue.run()
            except BaseException:
                # Stop the workers before the leases are released, so that no other process starts the same.
                self._close(now=True)
                raise
        if queue.unfinished:
            raise StoppedError("stopped; finished runs are recorded, repeat the command to continue")
        if queue.failed:
            first, error = queue.failed[0]
            failed = sum(len(run_batch.runs) for run_batch, _ in queue.failed)
            failures = f"{failed} of {runs} runs failed, all others are recorded"
            raise FailedError(f"{failures}; the first failure ({describe(first)}): {error}")

    def note(self, text: str) -> None:
        """Report a note, unless it was reported before."""
        if text not in self._noted:
            self._noted.add(text)
            self.tell({"event": "note", "text": text})

    def _progress(self, name: str, finished: int, rounds: int, loss: float | None) -> None:
        assert self._leases is not None
        self._leases.note(name, round=finished, rounds=rounds, loss=loss)
        self.tell({"event": "round", "run_batch": name, "round": finished, "rounds": rounds, "loss": loss})

    def _close(self, *, now: bool = False) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close(now=now)


class _Queue:
    """The run batches that wait, are in training, are trained by other processes, or have failed."""

    def __init__(
        self, runner: Runner, run_batches: Sequence[PlannedBatch], store: Store, leases: Leases, executor: Executor
    ) -> None:
        self.runner, self.store, self.leases, self.executor = runner, store, leases, executor
        self.waiting = deque(run_batches)
        self.elsewhere: deque[PlannedBatch] = deque()  # trained by other processes
        self.running: dict[str, PlannedBatch] = {}
        self.idle_since: float | None = None
        self.reported: set[tuple[Any, ...]] = set()  # waits and silences
        self.deaths: dict[str, int] = {}  # how often the worker of a run batch died
        self.failed: list[tuple[PlannedBatch, str]] = []

    @property
    def unfinished(self) -> bool:
        """Whether some run batches have neither started here nor ended."""
        return bool(self.waiting or self.elsewhere)

    def run(self) -> None:
        while True:
            stopped = self.runner.stop.is_set()
            while self.waiting and self.executor.free and not stopped:
                self._start(self.waiting.popleft())
            if self.running:
                self.idle_since = None
                for result in self.executor.finished(POLL):
                    self._end(result)
                self._report_silence()
            elif stopped or not self.unfinished:
                return
            else:
                self.idle_since = self.idle_since or time.monotonic()
                time.sleep(POLL)
            if not self.waiting:
                self._report_waits()
                self.waiting, self.elsewhere = self.elsewhere, self.waiting

    def _start(self, run_batch: PlannedBatch) -> None:
        """Train the run batch, unless it has been recorded meanwhile or another process trains it."""
        about = {"text": describe(run_batch), "runs": len(run_batch.runs)}
        other = self.leases.other(run_batch.name) if self.runner.steal else None
        if not self.leases.claim(run_batch.name, about, steal=self.runner.steal):
            self.elsewhere.append(run_batch)
            return
        if other is not None and other["stalled"]:
            self._tell("taken over", run_batch, **process_of(other))
        if self.store.holds(run_batch.name):
            self.leases.release(run_batch.name)
        else:
            self._tell("begun", run_batch, runs=len(run_batch.runs))
            self.leases.note(run_batch.name, worker=self.executor.submit(run_batch))
            self.running[run_batch.name] = run_batch

    def _report_waits(self) -> None:
        """Report every stalled process that is waited for, and after some idle seconds every other one; each once."""
        long = self.idle_since is not None and time.monotonic() - self.idle_since >= WAIT_REPORTED_AFTER
        for run_batch in self.elsewhere:
            other = self.leases.other(run_batch.name)
            if other is None or not (long or other["stalled"]):
                continue
            if self._is_new("waiting", run_batch.name, other["pid"], other["host"], other["begun"], other["stalled"]):
                self._tell("waiting", run_batch, **process_of(other))

    def _report_silence(self) -> None:
        """Report run batches whose worker is stopped, or that have had no new round for long."""
        stopped = self.leases.stopped()
        for name, seconds in self.leases.quiet().items():
            self._report_once("stopped", name, name in stopped, worker=stopped.get(name))
            self._report_once("quiet", name, seconds >= QUIET_AFTER, seconds=round(seconds, 1))

    def _report_once(self, event: str, name: str, holds: bool, **more: Any) -> None:
        """Report an event of a run batch in training if it holds, once until it no longer does."""
        if not holds:
            self.reported.discard((event, name))
        elif name in self.running and self._is_new(event, name):
            self._tell(event, self.running[name], **more)

    def _is_new(self, *what: Any) -> bool:
        """Tell whether this was not reported before, and remember it."""
        new = what not in self.reported
        self.reported.add(what)
        return new

    def _end(self, result: BatchResult) -> None:
        run_batch = result.run_batch
        del self.running[run_batch.name]
        trace = self._write_trace(result)
        for note in result.notes:
            self.runner.note(note)
        if result.records is not None:
            self.store.write(result.records, seconds=result.seconds, machine=result.machine)
            diverged = sum(record["status"] == "diverged" for record in result.records)
            self._tell("finished", run_batch, runs=len(result.records), diverged=diverged, seconds=result.seconds)
        elif result.lost:
            self._retry(run_batch, result.error or "")
        else:
            self._fail(run_batch, (result.error or "") + (f"; traceback in {trace}" if result.trace else ""))
        self.leases.release(run_batch.name)

    def _retry(self, run_batch: PlannedBatch, error: str) -> None:
        """Try again; after :data:`ATTEMPTS` deaths of the worker, or if memory ran out, split the run batch."""
        deaths = self.deaths[run_batch.name] = self.deaths.get(run_batch.name, 0) + 1
        if deaths < ATTEMPTS and "memory" not in error:
            self.waiting.appendleft(run_batch)
        elif halves := run_batch.halves():
            self._tell("split", run_batch, error=error)
            self.waiting.extendleft(reversed(halves))
        else:
            self._fail(run_batch, f"{error}, and the run batch cannot be split; use a machine with more memory")

    def _write_trace(self, result: BatchResult) -> Path:
        """Write the traceback of the run batch to a file, or delete the file of an earlier attempt; return its path."""
        file = self.store.path / "failed" / f"{result.run_batch.name}.txt"
        try:
            if result.trace is None:
                file.unlink(missing_ok=True)
            else:
                write_whole(file, f"{describe(result.run_batch)}\n\n{result.trace}".encode())
        except OSError as error:
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); fix this and repeat the command"
            ) from error
        return file

    def _fail(self, run_batch: PlannedBatch, error: str) -> None:
        self.failed.append((run_batch, error))
        self._tell("failed", run_batch, runs=len(run_batch.runs), error=error)

    def _tell(self, event: str, run_batch: PlannedBatch, **more: Any) -> None:
        self.runner.tell({"event": event, "run_batch": run_batch.name, "text": describe(run_batch), **more})


def describe(run_batch: PlannedBatch) -> str:
    """Return a short description of a run batch."""
    run, settings, seeds = run_batch.runs[0], len(run_batch.settings), len(run_batch.seeds)
    what = f"{run.algorithm['name']} on {run.data['name']}" + (f", {settings} settings" if settings > 1 else "")
    if seeds == 1:
        return f"{what}, seed {run_batch.seeds[0]}"
    return f"{what} x {seeds} seeds" if settings > 1 else f"{what}, {seeds} seeds"
