"""What is to be said of a store: what is being trained, what is finished, and how much of a study that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.sweep.lease import active_leases
from bench.sweep.store import Record, Store, garbage_collection_paused

if TYPE_CHECKING:
    from bench.spec import StudySpec

ABOUT = ("run_batch", "text", "runs", "round", "rounds", "loss", "pid", "host")


def status(store: Store) -> tuple[dict[str, Any], dict[str, Record]]:
    """What is going on in the store, in plain containers, and the records that can be believed by their runs' hashes.

    ``training``: each run batch's lease and for how many seconds it has run. ``finished``: runs, diverged ones among
    them, run batches, and the seconds that their training took. ``snapshots``: file, bytes, age in seconds.
    ``failed``: the file with the traceback of each run batch that ended by a fault in the program, and its text.
    ``damaged``: what is wrong with each file of records that cannot be believed.
    """
    records, damage = store.read_all()
    now = time.time()
    return {
        "store": str(store.path),
        "training": [
            {**{key: lease.get(key) for key in ABOUT}, "seconds": round(max(0.0, now - lease["begun"]), 1)}
            for lease in active_leases(store)
        ],
        "finished": {
            "runs": len(records),
            "diverged": diverged(records.values()),
            "run_batches": len(store.files()) - len(damage),
            "seconds": round(sum(cost["seconds"] for cost in store.costs()), 3),
        },
        "snapshots": list(_of_files(store.path / "snapshots", "*.safetensors", partial(_snapshot, now))),
        "failed": list(_of_files(store.path / "failed", "*.txt", _failure)),
        "damaged": damage,
    }, records  # fmt: skip


def progress(study: StudySpec, records: Mapping[str, Record], root: Path | None) -> dict[str, Any]:
    """How many runs a study has, and how many are finished and diverged, in all and by method.

    Equal settings count once. Of a search that asks by what it has found, and is not at its end, nobody knows how many
    there will be; it counts with as many as it tries.
    """
    from bench.sweep.study import recorded

    methods = {}
    with garbage_collection_paused():
        searches = recorded(study, records, root)
    for name, search in searches.items():
        there = [record for seeds in search.records for record in seeds if record is not None]
        known = study.methods[name].search.kind != "tpe" or len(there) == len(search.settings) * len(search.seeds)
        settings = len(search.settings) if known else study.methods[name].tried
        methods[name] = {"runs": settings * len(search.seeds), "finished": len(there), "diverged": diverged(there)}
    totals = {key: sum(method[key] for method in methods.values()) for key in ("runs", "finished", "diverged")}
    return {"file": str(study.file), "title": study.title, **totals, "methods": methods}


def diverged(records: Iterable[Mapping[str, Any]]) -> int:
    return sum(record["status"] == "diverged" for record in records)


def _of_files(folder: Path, names: str, look: Callable[[Path], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is to be seen of each file; one that vanishes meanwhile is of a run batch that has ended."""
    for file in sorted(folder.glob(names)):
        with suppress(FileNotFoundError):
            yield look(file)


def _snapshot(now: float, file: Path) -> dict[str, Any]:
    known = file.stat()
    return {"file": file.name, "bytes": known.st_size, "age": round(max(0.0, now - known.st_mtime), 1)}


def _failure(file: Path) -> dict[str, Any]:
    return {"file": str(file), "text": file.read_text(encoding="utf-8").partition("\n")[0]}
