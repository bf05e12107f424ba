"""A sweep with fake training that imports fast, for the reliability tests to start, interrupt and repeat.

python toy_sweep.py STORE [--workers N] [--run-batches P] [--runs R] [--seconds S] [--backwards] [--steal] [--report]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

from bench.sweep import training
from bench.sweep.executors.local import InProcessExecutor, ProcessExecutor
from bench.sweep.plan import plan
from bench.sweep.runner import Runner
from bench.sweep.store import FORMAT, Store
from bench.types import Budget, RunSpec, SilobenchError

SECONDS = "TOY_SECONDS"


def train(run_batch, site, tell=lambda *told: None):
    """Return records that depend on the run only."""
    for round_ in range(1, 4):
        time.sleep(float(os.environ.get(SECONDS, "0.01")) / 3)
        tell(round_, 3, None)
    return [record(run) for run in run_batch.runs]


def record(run: RunSpec) -> dict:
    number = int(hashlib.sha256(run.hash.encode()).hexdigest()[:8], 16) / 16**8
    return {
        "format": FORMAT, "run": run.hash, "spec": run.as_dict(), "status": "finished", "diverged": None,
        "scores": [["latest", 0, 0, "accuracy", number]], "validation": [[number]], "aggregated": [number],
        "curves": {}, "traces": {}, "communication": {"up": 1, "down": 1}, "parameters": 1, "path": "loop",
        "clients": ["one"], "test_sizes": [1], "synthetic": True, "versions": {},
        "environments": [],
    }  # fmt: skip


# Worker processes import this file too, so that they train as their parent does; tests that import it do not.
if __name__ in ("__main__", "__mp_main__"):
    training.train = train


def runs(run_batches: int, each: int) -> list[RunSpec]:
    data = {"name": "toy", "options": {}, "fingerprint": "f", "by_seed": []}
    named = [{"name": f"algorithm{number}", "options": {}} for number in range(run_batches)]
    return [RunSpec(data, name, {"name": "m", "options": {}}, {"lr": 0.1}, Budget(3, local_steps=1), seed)
            for name in named for seed in range(each)]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--run-batches", type=int, default=12)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seconds", default="0.01")
    parser.add_argument("--backwards", action="store_true")
    parser.add_argument("--steal", action="store_true")
    parser.add_argument("--report", action="store_true", help="print memory and open files during the sweep")
    wanted = parser.parse_args()
    os.environ[SECONDS] = wanted.seconds
    if limit := os.environ.get("TOY_LIMIT"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    store = Store(wanted.store)
    every = runs(wanted.run_batches, wanted.runs)
    run_batches = plan(every[::-1] if wanted.backwards else every, store.records())
    site, stop, ended = training.WorkerSettings(None, None), threading.Event(), 0

    def asked(number, frame):
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    def tell(event):
        nonlocal ended
        ended += event["event"] == "finished"
        if "pid" in event:
            print(json.dumps(event), flush=True)
        if wanted.report and event["event"] == "finished" and ended % (wanted.run_batches // 10) == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            print(pages * resource.getpagesize(), len(list(Path("/proc/self/fd").iterdir())), flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked)
    print("begun", flush=True)

    def make(told):
        return ProcessExecutor(wanted.workers, site, told) if wanted.workers else InProcessExecutor(site, told)

    try:
        with Runner(make, tell, stop, wanted.steal) as runner:
            runner.train(run_batches, store)
    except SilobenchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(131)


if __name__ == "__main__":
    main()
