"""The records of finished runs on disk: whole or not there, and never believed without their checksum.

``records/<hash>.jsonl`` holds the runs of one population, one JSON object a line; the name is the hash of the runs'
hashes. A line ends with the SHA-256 of the canonical JSON of all else in it. ``costs.jsonl`` says what each
population cost; it differs from machine to machine, which records must not.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench.files import write_whole
from bench.types import DataError, SilobenchError, content_hash

FORMAT = 1
SEAL = ',"sha256":"'


class Store:
    """A folder of records. Several processes may read and write it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> dict[str, dict[str, Any]]:
        """Every record by its run's hash; raises :class:`DataError` naming the first damaged file and line."""
        found: dict[str, dict[str, Any]] = {}
        for file in sorted((self.path / "records").glob("*.jsonl")):
            for record in _read(file):
                found.setdefault(record["run"], record)
        return found

    def write(self, records: Sequence[Mapping[str, Any]], *, seconds: float) -> Path:
        """Keep the records of one population, all or none, and note that it took ``seconds``; returns their file.

        Raises :class:`SilobenchError` when they cannot be written (full disk, no permission); nothing is left then.
        """
        file = self.path / "records" / f"{_name([record['run'] for record in records])}.jsonl"
        cost = {
            "population": file.stem,
            "runs": len(records),
            "seconds": round(seconds, 3),
            "path": records[0]["path"],
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        }
        content = "".join(f"{seal(record)}\n" for record in records)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                # Whoever writes holds the lock: a temporary file found here belongs to a process that died.
                for left in file.parent.glob(".*.part"):
                    left.unlink()
                write_whole(file, content.encode())
                with (self.path / "costs.jsonl").open("a", encoding="utf-8") as costs:
                    costs.write(json.dumps(cost) + "\n")
        except OSError as error:
            raise SilobenchError(
                f"{file}: cannot be written ({error.strerror}); mend that and repeat the command, "
                f"populations written before are kept"
            ) from error
        return file


def seal(record: Mapping[str, Any]) -> str:
    """The line of ``record``: canonical JSON that ends with the SHA-256 of everything before it."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f'{text[:-1]}{SEAL}{hashlib.sha256(text.encode()).hexdigest()}"}}'


def _name(runs: Sequence[str]) -> str:
    return content_hash({"runs": list(runs)})


def _read(file: Path) -> list[dict[str, Any]]:
    """The records of one population, every byte checked."""
    mend = f"delete {file} and repeat the command that made it, only its runs are trained again"
    lines = file.read_bytes().split(b"\n")
    if lines.pop():
        raise DataError(f"{file}, line {len(lines) + 1}: cut short, expected a whole line; {mend}")
    records = []
    for number, line in enumerate(lines, 1):
        body, _, found = line.rpartition(SEAL.encode())
        expected = hashlib.sha256(body + b"}").hexdigest()
        if found != f'{expected}"}}'.encode():
            shown = found[:64].decode(errors="replace")
            raise DataError(f"{file}, line {number}: damaged, its sha256 is {expected}, written {shown!r}; {mend}")
        record = json.loads(line)
        if record["format"] != FORMAT:
            raise DataError(f"{file}, line {number}: format {record['format']}, this version reads {FORMAT}; {mend}")
        records.append(record)
    name = _name([record["run"] for record in records])
    if name != file.stem:
        raise DataError(f"{file}: lines are missing or foreign, its runs belong in {name}.jsonl; {mend}")
    return records
