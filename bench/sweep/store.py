"""The records of finished runs on disk: whole or not there, and never believed without their checksum.

``records/<hash>.jsonl`` holds the runs of one run batch, one JSON object a line; the name is the hash of the runs'
hashes. A line ends with the SHA-256 of the canonical JSON of all else in it. ``costs.jsonl`` says what each
run batch cost; it differs from machine to machine, which records must not. ``leases/`` says what is being trained
(see bench.sweep.lease), ``snapshots/`` how far it has come, ``failed/`` what went wrong (see bench.sweep.runner).
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic_core import from_json

from bench.files import write_whole
from bench.sweep.plan import name
from bench.types import DataError, SilobenchError

FORMAT = 2
SEAL = ',"sha256":"'
Record = dict[str, Any]


def _with_curves(record: Record) -> Record:
    """Format 2 added curves and traces, and budget and data say what used to go without saying."""
    spec = record["spec"]
    budget = {"evaluate": "aggregated", "test_every": 0} | spec["budget"]
    spec = {**spec, "budget": budget, "data": {"by_seed": []} | spec["data"]}
    return {"curves": {}, "traces": {}} | record | {"spec": spec, "format": 2}


# What makes a record of a format one of the next. A record keeps the name that its run had when it was made.
UPGRADES: dict[int, Callable[[Record], Record]] = {1: _with_curves}


class Store:
    """A folder of records. Several processes may read and write it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lock(self) -> FileLock:
        """Held while anything but a snapshot is written."""
        return FileLock(self.path / ".lock")

    def records(self) -> dict[str, Record]:
        """Every record by its run's hash; raises :class:`DataError` naming the first damaged file and line."""
        found, damage = self.read_all()
        if damage:
            raise DataError(damage[0])
        return found

    def read_all(self) -> tuple[dict[str, Record], list[str]]:
        """Every record that can be believed, by its run's hash, and what is wrong with each damaged file."""
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
        """The file of each run batch on record."""
        return sorted((self.path / "records").glob("*.jsonl"))

    def holds(self, run_batch: str) -> bool:
        """Whether the records of the run batch with this name are there."""
        return (self.path / "records" / f"{run_batch}.jsonl").exists()

    def write(self, records: Sequence[Mapping[str, Any]], *, seconds: float, machine: str = "") -> Path:
        """Keep the records of one run batch, all or none, and note how long they took and where; returns their file.

        Raises :class:`SilobenchError` when they cannot be written (full disk, no permission); nothing is left then.
        """
        file = self.path / "records" / f"{name([record['run'] for record in records])}.jsonl"
        cost = {
            "population": file.stem,
            "runs": len(records),
            "seconds": round(seconds, 3),
            "path": records[0]["path"],
            "machine": machine,
        }
        content = "".join(f"{seal(record)}\n" for record in records)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self.lock:
                # Whoever writes holds the lock: a temporary file found here belongs to a process that died.
                for left in file.parent.glob(".*.part"):
                    left.unlink()
                write_whole(file, content.encode())
                with (self.path / "costs.jsonl").open("a", encoding="utf-8") as costs:
                    costs.write(json.dumps(cost) + "\n")
        except OSError as error:
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); mend that and repeat the command, "
                f"run batches written before are kept"
            ) from error
        return file

    def costs(self) -> list[Record]:
        """What each run batch cost, in the order in which they were written."""
        file = self.path / "costs.jsonl"
        costs: list[Record] = []
        for line in file.read_bytes().split(b"\n") if file.exists() else []:
            with suppress(ValueError):  # a full disk cuts a line; no result depends on it
                cost = from_json(line)
                costs += [cost] if isinstance(cost, dict) and isinstance(cost.get("seconds"), int | float) else []
        return costs


def seal(record: Mapping[str, Any]) -> str:
    """The line of ``record``: canonical JSON that ends with the SHA-256 of everything before it."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f'{text[:-1]}{SEAL}{hashlib.sha256(text.encode()).hexdigest()}"}}'


def _read(file: Path) -> list[Record]:
    """The records of one run batch, every byte checked."""
    mend = f"delete {file} and repeat the command that made it, only its runs are trained again"
    try:
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); mend that, or {mend}") from error
    records = []
    for number, line in enumerate([*lines, rest] if rest else lines, 1):
        body, _, found = line.rpartition(SEAL.encode())
        expected = hashlib.sha256(body + b"}").hexdigest()
        if found != f'{expected}"}}'.encode() or number > len(lines):
            what = "damaged" if number <= len(lines) else "cut short"
            shown = found[:64].decode(errors="replace")
            raise DataError(f"{file}, line {number}: {what}, its sha256 is {expected}, written {shown!r}; {mend}")
        record = from_json(line)
        while record["format"] in UPGRADES:
            record = UPGRADES[record["format"]](record)
        if record["format"] != FORMAT:
            newer = f"format {record['format']}, this version reads up to {FORMAT}"
            raise DataError(f"{file}, line {number}: {newer}; update silobench, or {mend}")
        records.append(record)
    named = name([record["run"] for record in records])
    if named != file.stem:
        raise DataError(f"{file}: lines are missing or foreign, its runs belong in {named}.jsonl; {mend}")
    return records


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """No garbage collection until the block ends; it would look at ten thousand records again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # To the oldest generation with them all: the next collection would look at them once more.
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()
