"""Overhead of a sweep: time per run, restart, accuracy of the plan, scaling over workers.

    python scripts/bench_sweep.py

Writes results/benchmarks/sweep.md and sweep.json. Ratios come from one run on one machine; nothing here is a test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.files import write_whole
from bench.sweep.store import Store

ROOT = Path(__file__).parent.parent
SILOBENCH = Path(sys.executable).with_name("silobench")
QUICKSTART = ROOT / "experiments/quickstart/quickstart.toml"
TOY = ROOT / "tests/reliability/toy_sweep.py"
OVERHEAD = Path(__file__).with_name("runner_overhead.py")


def output(*command: Any, **environment: str) -> str:
    """Run a command and return its standard output."""
    return subprocess.run(
        list(map(str, command)), check=True, capture_output=True, text=True, env={**os.environ, **environment}, cwd=ROOT
    ).stdout


def seconds(*command: Any, **environment: str) -> float:
    """Run a command and return its wall-clock time in seconds."""
    begin = time.perf_counter()
    output(*command, **environment)
    return time.perf_counter() - begin


def overhead() -> dict[str, float]:
    """Measure the runner's milliseconds per run without training, by workers: 4,000 runs in run batches of 10."""
    return {str(workers): float(output(sys.executable, OVERHEAD, workers)) for workers in (0, 1, 4, 16)}


def restart(room: Path) -> dict[str, float]:
    """Measure seconds until a finished study makes its tables again, and until 10,000 records are listed."""
    study = room / "study.toml"
    study.write_text(
        'title = "A thousand runs"\nseeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n[data]\nname = "digits"\n'
        '[budget]\nrounds = 1\nlocal_steps = 1\nbatch_size = 8\n[methods.fedavg]\nmodel = "logistic"\n'
        f"grid.lr = {[round(0.01 * step, 2) for step in range(1, 101)]}\n"
    )
    sweep = (SILOBENCH, "sweep", study, "--store", room / "thousand", "--out", room / "out", "--quiet")
    first = seconds(*sweep)
    again = min(seconds(*sweep) for _ in range(3))
    seconds(sys.executable, TOY, room / "many", "--run-batches", 1000, "--runs", 10, "--seconds", 0)
    begin = time.perf_counter()
    records = len(Store(room / "many").records())
    read = time.perf_counter() - begin
    listed = min(seconds(SILOBENCH, "runs", "--store", room / "many") for _ in range(3))
    return {"first": first, "again": again, "records": records, "read": read, "listed": listed}


def plan(room: Path) -> dict[str, float]:
    """Measure estimated and real seconds of the quickstart's training, imports included, with an empty cache."""
    cache = {"BENCH_CACHE": str(room / "cache")}
    begin = time.perf_counter()
    told = output(SILOBENCH, "plan", QUICKSTART, "--store", room / "planned", "--json", **cache)
    planning = time.perf_counter() - begin
    sweep = (SILOBENCH, "sweep", QUICKSTART, "--store", room / "planned", "--out", room / "out", "--quiet")
    output(*sweep, **cache)  # the plan has stored the metadata of the data here
    real = sum(cost["seconds"] for cost in Store(room / "planned").costs())
    return {"planning": planning, "estimated": json.loads(told)["seconds"], "real": real}


def scaling(room: Path) -> dict[str, float]:
    """Measure seconds of the quickstart by number of worker processes, their start included."""
    return {
        str(workers): seconds(SILOBENCH, "sweep", QUICKSTART, "--store", room / f"scaled{workers}", "--out",
                              room / "out", "--quiet", "--workers", workers)
        for workers in (1, 2)
    }  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        found: dict[str, Any] = {
            "machine": machine.name(),
            "overhead_ms": overhead(),
            "restart": restart(room),
            "plan": plan(room),
            "scaling": scaling(room),
        }
    again, planned, scaled = found["restart"], found["plan"], found["scaling"]
    rows = "".join(f"| {workers} | {each:.2f} |\n" for workers, each in found["overhead_ms"].items())
    text = f"""# Overhead of a sweep

{found["machine"]}; measured by `make bench`.

| worker processes (0: none) | overhead per run after all have started, ms |
|---|---|
{rows}
| | |
|---|---|
| a finished study of 1,000 runs, repeated | {again["again"]:.2f} s (first time {again["first"]:.1f} s) |
| {again["records"]:,} records read and checked / listed by `silobench runs` \
| {again["read"]:.2f} s / {again["listed"]:.2f} s |
| quickstart: estimated / real training | {planned["estimated"]:.1f} s / {planned["real"]:.1f} s, \
ratio {planned["estimated"] / planned["real"]:.2f}; planning took {planned["planning"]:.1f} s |
| quickstart with 1 / 2 workers | {scaled["1"]:.1f} s / {scaled["2"]:.1f} s, \
{scaled["1"] / scaled["2"]:.2f} times as fast |
"""
    for name, content in (("sweep.md", text), ("sweep.json", json.dumps(found, indent=2) + "\n")):
        write_whole(ROOT / "results/benchmarks" / name, content.encode())
    print(text)


if __name__ == "__main__":
    main()
