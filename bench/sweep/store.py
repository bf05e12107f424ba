"""The store: records of finished runs on disk, written atomically and checked by a checksum when read.

``records/<hash>.jsonl`` has the runs of one run batch, one JSON object per line; the name is the hash of the runs'
hashes. A line ends with the SHA-256 of the canonical JSON of the rest of the line. ``costs.jsonl`` has the training
time and machine of each run batch, which records do not contain. ``leases/`` has the run batches in training (see
:mod:`bench.sweep.lease`), ``snapshots/`` their state, ``failed/`` tracebacks (see :mod:`bench.sweep.runner`).
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic_core import from_json

from bench.files import write_whole
from bench.sweep.plan import batch_name
from bench.types import DataError, SilobenchError

FORMAT = 3
CHECKSUM = ',"sha256":"'
LOCK_TIMEOUT = 300.0  # seconds; a process holds the lock for less than a second
Record = dict[str, Any]


def _with_curves(record: Record) -> Record:
    """Upgrade from format 1: add curves, traces, and the keys of budget and data that were implied."""
    spec = record["spec"]
    budget = {"evaluate": "aggregated", "test_every": 0} | spec["budget"]
    spec = {**spec, "budget": budget, "data": {"by_seed": []} | spec["data"]}
    return {"curves": {}, "traces": {}} | record | {"spec": spec, "format": 2}


def _with_environments(record: Record) -> Record:
    """Upgrade from format 2: add the environments, which were not recorded."""
    return {"environments": []} | record | {"format": 3}


# Functions that convert a record from a format to the next one. The hash of the run stays unchanged.
UPGRADES: dict[int, Callable[[Record], Record]] = {1: _with_curves, 2: _with_environments}


class DamageError(DataError):
    """Files of records are damaged; ``damage`` has a message for each."""

    def __init__(self, damage: Sequence[str]) -> None:
        more = f"; {len(damage) - 1} more damaged, see `silobench status`" if len(damage) > 1 else ""
        super().__init__(f"{damage[0]}{more}")


class Store:
    """A folder of records, which several processes may read and write at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that a process needs to write anything but a snapshot.

        Raise :class:`SilobenchError` if another process holds it for :data:`LOCK_TIMEOUT`, for example a stopped one.
        """
        lock = FileLock(self.path / ".lock", timeout=LOCK_TIMEOUT)
        try:
            lock.acquire()
        except Timeout:
            what = f"another process has held this lock for {LOCK_TIMEOUT:.0f} s"
            raise SilobenchError(f"{lock.lock_file}: {what}; continue or end it, and repeat the command") from None
        try:
            yield
        finally:
            lock.release()

    def records(self) -> dict[str, Record]:
        """Return every record by the hash of its run; raise :class:`DamageError` if files are damaged."""
        found, damage = self.read_all()
        if damage:
            raise DamageError(damage)
        return found

    def read_all(self) -> tuple[dict[str, Record], list[str]]:
        """Return every intact record by the hash of its run, and a message for each damaged file."""
        found: dict[str, Record] = {}
        damage: list[str] = []
        with garbage_collection_paused():
            for file in self.files():
                try:
                    for record in _read(file):
                        found.setdefault(record["run"], record)
                except DataError as error:
                    damage.append(str(error))
        return found, damage

    def files(self) -> list[Path]:
        """Return the files of records, one per run batch."""
        return sorted((self.path / "records").glob("*.jsonl"))

    def holds(self, run_batch: str) -> bool:
        """Tell whether the store has the records of the run batch with this name."""
        return (self.path / "records" / f"{run_batch}.jsonl").exists()

    def write(self, records: Sequence[Mapping[str, Any]], *, seconds: float, machine: str = "") -> Path:
        """Write the records of one run batch, all or none, with their training time; return their file.

        Raise :class:`SilobenchError` if they cannot be written (full disk, no permission); then no file is left behind.
        """
        file = self.path / "records" / f"{batch_name([record['run'] for record in records])}.jsonl"
        cost = {
            "population": file.stem,
            "runs": len(records),
            "seconds": round(seconds, 3),
            "path": records[0]["path"],
            "machine": machine,
        }
        content = "".join(f"{encode(record)}\n" for record in records)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self.lock():
                # Writers hold the lock, so a temporary file found here belongs to a process that died.
                for leftover in file.parent.glob(".*.part"):
                    leftover.unlink()
                write_whole(file, content.encode())
                with (self.path / "costs.jsonl").open("a", encoding="utf-8") as costs:
                    costs.write(json.dumps(cost) + "\n")
        except OSError as error:
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); fix this and repeat the command, "
                f"earlier run batches are kept"
            ) from error
        return file

    def costs(self) -> list[Record]:
        """Return the training times of run batches, in the order in which they were written."""
        file = self.path / "costs.jsonl"
        costs: list[Record] = []
        for line in file.read_bytes().split(b"\n") if file.exists() else []:
            with suppress(ValueError):  # a full disk may truncate a line; no result depends on it
                cost = from_json(line)
                costs += [cost] if isinstance(cost, dict) and isinstance(cost.get("seconds"), int | float) else []
        return costs


def encode(record: Mapping[str, Any]) -> str:
    """Return the line of ``record``: canonical JSON that ends with the SHA-256 of everything before it."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f'{text[:-1]}{CHECKSUM}{hashlib.sha256(text.encode()).hexdigest()}"}}'


def _read(file: Path) -> list[Record]:
    """Return the records of one run batch; raise :class:`DataError` if any byte is damaged."""
    remedy = f"delete {file} and repeat the command that wrote it, only its runs are trained again"
    try:
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); fix this, or {remedy}") from error
    records = []
    for number, line in enumerate([*lines, rest] if rest else lines, 1):
        body, _, found = line.rpartition(CHECKSUM.encode())
        expected = hashlib.sha256(body + b"}").hexdigest()
        if found != f'{expected}"}}'.encode() or number > len(lines):
            what = "damaged" if number <= len(lines) else "truncated"
            shown = found[:64].decode(errors="replace")
            raise DataError(f"{file}, line {number}: {what}, its sha256 is {expected}, written {shown!r}; {remedy}")
        try:
            record = from_json(line)
            while record["format"] in UPGRADES:
                record = UPGRADES[record["format"]](record)
            found_format, _ = record["format"], record["run"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file}, line {number}: is not a record; {remedy}") from error
        if found_format != FORMAT:
            newer = f"format {found_format}, this version reads up to {FORMAT}"
            raise DataError(f"{file}, line {number}: {newer}; update silobench, or {remedy}")
        records.append(record)
    name = batch_name([record["run"] for record in records])
    if name != file.stem:
        raise DataError(f"{file}: lines are missing or misplaced, its runs belong to {name}.jsonl; {remedy}")
    return records


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause garbage collection inside the block; it would examine ten thousand records repeatedly."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Move all objects to the oldest generation, which the next collection does not examine.
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()
