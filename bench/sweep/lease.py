"""Leases: a file per running run batch, so that several processes share one store and train each run once.

A lease names its process and the progress of the training, and is rewritten every few seconds. Another process may take
over a lease if its process has ended, or if it was not rewritten for a while.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.files import write_whole
from bench.sweep.store import Store
from bench.types import SilobenchError

HEARTBEAT = 2.0  # seconds between two writes of a lease
STALE_AFTER = 3 * HEARTBEAT


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

    def claim(self, run_batch: str, about: Mapping[str, Any]) -> bool:
        """Take the lease of a run batch; return False if a living process holds it.

        ``about`` describes the run batch. Raise :class:`SilobenchError` if the lease cannot be written (full disk, no
        permission).
        """
        file = _file(self.store, run_batch)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self.store.lock:
                if (other := _read(file)) is not None and _alive(other, file):
                    return False
                with self._guard:
                    self._held[run_batch] = {**_holder(), "run_batch": run_batch, "begun": time.time(), **about}
                self._write(run_batch)
        except OSError as error:
            self.release(run_batch)
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); fix this and repeat the command"
            ) from error
        return True

    def note(self, run_batch: str, **progress: Any) -> None:
        """Set the progress of a run batch in its lease, which is written at the next heartbeat."""
        with self._guard:
            if run_batch in self._held:
                self._held[run_batch] |= progress

    def release(self, run_batch: str) -> None:
        with self._guard:
            if self._held.pop(run_batch, None) is not None:  # otherwise another process holds it
                _file(self.store, run_batch).unlink(missing_ok=True)

    def _keep_alive(self) -> None:
        while not self._over.wait(self.beat):
            for run_batch in list(self._held):
                with suppress(OSError):  # a full disk: training continues, another process may train the same
                    self._write(run_batch)

    def _write(self, run_batch: str) -> None:
        with self._guard:
            if run_batch in self._held:
                write_whole(_file(self.store, run_batch), json.dumps(self._held[run_batch]).encode())


def active_leases(store: Store) -> list[dict[str, Any]]:
    """Return the leases of living processes: what they train, and their progress."""
    files = sorted((store.path / "leases").glob("*.json"))
    found = ((file, _read(file)) for file in files)
    return [lease for file, lease in found if lease is not None and _alive(lease, file)]


def _file(store: Store, run_batch: str) -> Path:
    return store.path / "leases" / f"{run_batch}.json"


def _read(file: Path) -> dict[str, Any] | None:
    """Return the lease in ``file``; None if there is none or it is not valid."""
    try:
        lease: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    types = {"pid": int, "started": str | None, "host": str, "boot": str, "begun": float}
    valid = isinstance(lease, dict) and all(isinstance(lease.get(key, ...), kind) for key, kind in types.items())
    return lease if valid and lease["pid"] > 0 else None


def _alive(lease: Mapping[str, Any], file: Path, now: Callable[[], float] = time.time) -> bool:
    """Tell whether the holder of a lease is alive: by its process on this machine, else by the age of the file."""
    me = _holder()
    if (lease["host"], lease["boot"]) == (me["host"], me["boot"]):
        return _runs(lease["pid"], lease["started"])
    try:
        return abs(now() - file.stat().st_mtime) < STALE_AFTER
    except OSError:
        return False


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
        return True
    fields = _stat(pid)
    return not fields or (fields[0] != "Z" and started in (None, _started(pid)))


def _started(pid: int) -> str | None:
    """Return the start time of a process in clock ticks; None if the system does not report it."""
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` after the name; an empty list on other systems."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
