"""Leases: a file per running run batch, so that several processes share one store and train each run once.

A lease names its process and the progress of the training, and is rewritten every few seconds (a heartbeat). Another
process may take over a lease if its process has ended, or, on another machine, if it was not rewritten for a while. A
process of this machine that is stopped, or runs but does not rewrite its lease, is stalled: its lease is taken over on
request only. A lease also names the worker process that trains, if there is one.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from bench.files import write_whole
from bench.sweep.store import Store
from bench.types import SilobenchError

HEARTBEAT = 2.0  # seconds between two writes of a lease
STALE_AFTER = 3 * HEARTBEAT
STALLED_AFTER = 30.0  # seconds without a heartbeat of a process that exists
QUIET_AFTER = 300.0  # seconds without a new round that are worth a message
TYPES = {"pid": int, "started": str | None, "host": str, "boot": str, "begun": float}
OPTIONAL = {
    "text": str, "runs": int, "worker": int, "round": int, "rounds": int, "loss": int | float, "progressed": float,
}  # fmt: skip


class Leases:
    """The leases of this process in a store; a background thread rewrites them until the block ends."""

    def __init__(self, store: Store, beat: float = HEARTBEAT) -> None:
        self.store, self.beat = store, beat
        self._held: dict[str, dict[str, Any]] = {}
        self._guard, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)

    def __enter__(self) -> Leases:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        for run_batch in list(self._held):
            self.release(run_batch)

    def claim(self, run_batch: str, about: Mapping[str, Any], *, steal: bool = False) -> bool:
        """Take the lease of a run batch; return False if a living process holds it.

        ``about`` describes the run batch. With ``steal``, a lease whose process is stalled is taken over. Raise
        :class:`SilobenchError` if the lease cannot be written (full disk, no permission).
        """
        file = _file(self.store, run_batch)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self.store.lock():
                if (other := active_lease(file)) is not None and not (steal and other["stalled"]):
                    return False
                now = time.time()
                with self._guard:
                    times = {"begun": now, "progressed": now}
                    self._held[run_batch] = {**_holder(), "run_batch": run_batch, **times, **about}
                    self._write(run_batch)
        except OSError as error:
            self.release(run_batch)
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); fix this and repeat the command"
            ) from error
        return True

    def note(self, run_batch: str, **progress: Any) -> None:
        """Set the progress or worker of a run batch in its lease, which is written at the next heartbeat."""
        with self._guard:
            if run_batch in self._held:
                self._held[run_batch] |= {**progress, "progressed": time.time()}

    def quiet(self) -> dict[str, float]:
        """Return the seconds since the last progress of each run batch that this process holds."""
        with self._guard:
            return {run_batch: max(0.0, time.time() - held["progressed"]) for run_batch, held in self._held.items()}

    def stopped(self) -> dict[str, int]:
        """Return the worker of each run batch that this process holds and whose worker is stopped."""
        with self._guard:
            workers = {run_batch: held.get("worker") for run_batch, held in self._held.items()}
        return {run_batch: pid for run_batch, worker in workers.items() if (pid := _stopped(worker)) is not None}

    def other(self, run_batch: str) -> dict[str, Any] | None:
        """Return the lease of a run batch that a living process holds, see :func:`active_lease`."""
        return active_lease(_file(self.store, run_batch))

    def release(self, run_batch: str) -> None:
        with self._guard:
            file = _file(self.store, run_batch)
            if self._is_ours(run_batch) and not file.is_dir():
                file.unlink(missing_ok=True)
            self._held.pop(run_batch, None)

    def _keep_alive(self) -> None:
        while not self._over.wait(self.beat):
            for run_batch in list(self._held):
                # A full disk: training continues, another process may train the same.
                with suppress(OSError), self._guard:
                    if self._is_ours(run_batch):
                        self._write(run_batch)
                    else:
                        self._held.pop(run_batch, None)

    def _write(self, run_batch: str) -> None:
        write_whole(_file(self.store, run_batch), json.dumps(self._held[run_batch]).encode())

    def _is_ours(self, run_batch: str) -> bool:
        """Tell whether this process holds the lease, and no other process has taken it over."""
        if (held := self._held.get(run_batch)) is None:
            return False
        written = _read(_file(self.store, run_batch))
        return written is None or all(written[key] == held[key] for key in TYPES)


def active_leases(store: Store) -> list[dict[str, Any]]:
    """Return the leases of living processes, see :func:`active_lease`."""
    found = map(active_lease, sorted((store.path / "leases").glob("*.json")))
    return [lease for lease in found if lease is not None]


def active_lease(file: Path) -> dict[str, Any] | None:
    """Return the lease in ``file``: what is trained, by whom, and the progress; None if its process is not alive.

    "age" is the time since the last heartbeat, "quiet" since the last progress, in seconds. "stopped" is the id of the
    process or its worker if it is stopped, else None. "stalled" tells whether one is stopped or the heartbeat overdue.
    """
    lease, now = _read(file), time.time()
    try:
        # A time in the future is as wrong as one in the past: the clock was changed, or the file is forged.
        age = abs(now - file.stat().st_mtime)
    except OSError:
        return None
    if lease is None or not _alive(lease, age):
        return None
    quiet = max(0.0, now - lease.get("progressed", lease["begun"]))
    stopped = _stopped(lease["pid"], lease.get("worker")) if _is_here(lease) else None
    stalled = stopped is not None or age > STALLED_AFTER
    return {**lease, "age": age, "quiet": quiet, "stopped": stopped, "stalled": stalled}


def process_of(lease: Mapping[str, Any]) -> dict[str, Any]:
    """Return the process that holds an active lease, its worker and state, and the age of its heartbeat in seconds."""
    state = {key: lease.get(key) for key in ("pid", "worker", "host", "stalled", "stopped")}
    return state | {"age": round(lease["age"], 1)}


def _file(store: Store, run_batch: str) -> Path:
    return store.path / "leases" / f"{run_batch}.json"


def _read(file: Path) -> dict[str, Any] | None:
    """Return the lease in ``file``; None if there is none or it is not valid."""
    try:
        lease: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    valid = (
        isinstance(lease, dict)
        and all(isinstance(lease.get(key, ...), kind) for key, kind in TYPES.items())
        and all(isinstance(lease.get(key), kind | None) for key, kind in OPTIONAL.items())
        and all(isfinite(value) for value in lease.values() if isinstance(value, float))
    )
    return lease if valid and lease["pid"] > 0 else None


def _alive(lease: Mapping[str, Any], age: float) -> bool:
    """Tell whether the holder of a lease is alive: by its process on this machine, else by the age of the lease."""
    return _runs(lease["pid"], lease["started"]) if _is_here(lease) else age < STALE_AFTER


def _is_here(lease: Mapping[str, Any]) -> bool:
    """Tell whether the holder of a lease is on this machine."""
    me = _holder()
    return (lease["host"], lease["boot"]) == (me["host"], me["boot"])


def _holder() -> dict[str, Any]:
    """Return the identity of this process: its id and start time, and those of its machine.

    Containers have their own process ids and may share a host name, so each container counts as a machine.
    """
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        boot += f" {Path('/proc/self/ns/pid').readlink()}"
    return {"pid": os.getpid(), "started": _started(os.getpid()), "host": socket.gethostname(), "boot": boot}


def _runs(pid: int, started: str | None) -> bool:
    """Tell whether the process is running: not a zombie, and not a later process with the same id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # a process of another user
    fields = _stat(pid)
    return not fields or (fields[0] != "Z" and started in (None, _started(pid)))


def _stopped(*pids: int | None) -> int | None:
    """Return the first of some processes of this machine that is stopped; None if none is."""
    return next((pid for pid in pids if pid is not None and _stat(pid)[:1] == ["T"]), None)


def _started(pid: int) -> str | None:
    """Return the start time of a process in clock ticks; None if the system does not report it."""
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` after the name; an empty list on other systems."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
