"""The status of a store: run batches in training, finished runs, and the progress of a study."""

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

LEASE_KEYS = ("run_batch", "text", "runs", "round", "rounds", "loss", "pid", "worker", "host", "stalled", "stopped")


def status(store: Store) -> tuple[dict[str, Any], dict[str, Record]]:
    """Return the status of the store in plain containers, and its intact records by the hash of their run.

    ``training``: lease of each run batch, with the seconds since its start ("seconds"), its last heartbeat ("age") and
    its last round ("quiet"); "stalled" if its process exists but gives no heartbeat, or if it or its worker is stopped;
    "stopped" is the id of that process. ``finished``: counts of runs, diverged runs and run batches, and the
    seconds of their training. ``snapshots``: file, bytes, age in seconds. ``failed``: file with the traceback of each
    run batch that ended by an unexpected error, and its first line.
    ``damaged``: a message for each damaged file of records.
    """
    records, damage = store.read_all()
    now = time.time()
    return {
        "store": str(store.path),
        "training": [
            {key: lease.get(key) for key in LEASE_KEYS}
            | {"seconds": round(max(0.0, now - lease["begun"]), 1)}
            | {key: round(lease[key], 1) for key in ("age", "quiet")}
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
    """Return the counts of a study's runs: all, finished and diverged; in total and by method.

    Equal settings count once. An unfinished TPE search may still repeat settings, so all of its trials are counted.
    """
    from bench.sweep.study import recorded

    methods = {}
    with garbage_collection_paused():
        searches = recorded(study, records, root)
    for name, search in searches.items():
        finished = [record for seeds in search.records for record in seeds if record is not None]
        known = study.methods[name].search.kind != "tpe" or len(finished) == len(search.settings) * len(search.seeds)
        settings = len(search.settings) if known else study.methods[name].tried
        methods[name] = {
            "runs": settings * len(search.seeds),
            "finished": len(finished),
            "diverged": diverged(finished),
        }
    totals = {key: sum(method[key] for method in methods.values()) for key in ("runs", "finished", "diverged")}
    return {"file": str(study.file), "title": study.title, **totals, "methods": methods}


def diverged(records: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of diverged runs."""
    return sum(record["status"] == "diverged" for record in records)


def _of_files(folder: Path, names: str, describe: Callable[[Path], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Describe each file with ``describe``; skip files that vanish because their run batch ends meanwhile."""
    for file in sorted(folder.glob(names)):
        with suppress(FileNotFoundError):
            yield describe(file)


def _snapshot(now: float, file: Path) -> dict[str, Any]:
    stat = file.stat()
    return {"file": file.name, "bytes": stat.st_size, "age": round(max(0.0, now - stat.st_mtime), 1)}


def _failure(file: Path) -> dict[str, Any]:
    return {"file": str(file), "text": file.read_text(encoding="utf-8").partition("\n")[0]}
