"""Who trains what: a file per running run batch, so that processes share one store and train each run once.

A lease says which process holds it and how far it has come, and is touched every few seconds. One whose process is
gone, or that nobody has touched for a while, may be taken over.
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

HEARTBEAT = 2.0  # seconds
STALE_AFTER = 3 * HEARTBEAT


class Leases:
    """The leases that this process holds in a store, kept alive in the background until the block ends."""

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
        """Take the lease of a run batch unless somebody alive has it; ``about`` says what is trained.

        Raises :class:`SilobenchError` when it cannot be written (full disk, no permission).
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
                f"{file}: cannot be written ({error.strerror}); mend that and repeat the command"
            ) from error
        return True

    def note(self, run_batch: str, **progress: Any) -> None:
        """Say in the lease how far its run batch has come (at the next heartbeat)."""
        with self._guard:
            if run_batch in self._held:
                self._held[run_batch] |= progress

    def release(self, run_batch: str) -> None:
        with self._guard:
            if self._held.pop(run_batch, None) is not None:  # else it is somebody else's
                _file(self.store, run_batch).unlink(missing_ok=True)

    def _keep_alive(self) -> None:
        while not self._over.wait(self.beat):
            for run_batch in list(self._held):
                with suppress(OSError):  # a full disk: the work goes on, another process may begin the same
                    self._write(run_batch)

    def _write(self, run_batch: str) -> None:
        with self._guard:
            if run_batch in self._held:
                write_whole(_file(self.store, run_batch), json.dumps(self._held[run_batch]).encode())


def active_leases(store: Store) -> list[dict[str, Any]]:
    """What is being trained now, by whom and how far it has come."""
    files = sorted((store.path / "leases").glob("*.json"))
    found = ((file, _read(file)) for file in files)
    return [lease for file, lease in found if lease is not None and _alive(lease, file)]


def _file(store: Store, run_batch: str) -> Path:
    return store.path / "leases" / f"{run_batch}.json"


def _read(file: Path) -> dict[str, Any] | None:
    """The lease in ``file``; None where there is none or it cannot be read, and then it counts for nothing."""
    try:
        lease: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    kinds = {"pid": int, "started": str | None, "host": str, "boot": str, "begun": float}
    whole = isinstance(lease, dict) and all(isinstance(lease.get(key, ...), kind) for key, kind in kinds.items())
    return lease if whole and lease["pid"] > 0 else None


def _alive(lease: Mapping[str, Any], file: Path, now: Callable[[], float] = time.time) -> bool:
    me = _holder()
    if (lease["host"], lease["boot"]) == (me["host"], me["boot"]):
        return _runs(lease["pid"], lease["started"])
    try:
        return abs(now() - file.stat().st_mtime) < STALE_AFTER
    except OSError:
        return False


def _holder() -> dict[str, Any]:
    """This process: its number, when it was started, its machine, and the machine's start.

    Containers count processes for themselves, and may share their machine's name; each is as good as a machine.
    """
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        boot += f" {Path('/proc/self/ns/pid').readlink()}"
    return {"pid": os.getpid(), "started": _started(os.getpid()), "host": socket.gethostname(), "boot": boot}


def _runs(pid: int, started: str | None) -> bool:
    """Whether the process is there: not dead and unburied, and not another one that was given its number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    state = _state(pid)
    return not state or (state[0] != "Z" and started in (None, _started(pid)))


def _started(pid: int) -> str | None:
    """When the process was started, in the kernel's ticks; None where nobody says."""
    state = _state(pid)
    return state[19] if state else None


def _state(pid: int) -> list[str]:
    """What the kernel says of a process after its name; empty where it says nothing."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
