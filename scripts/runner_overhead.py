"""Print the runner's milliseconds per run without training, by number of worker processes (0: none).

    python scripts/runner_overhead.py WORKERS

Workers take seconds to start, and the first ones continue meanwhile. Timing therefore starts when every worker
has trained one run batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from bench.sweep import training
from bench.sweep.executors.base import Executor, Progress
from bench.sweep.executors.local import InProcessExecutor, ProcessExecutor
from bench.sweep.plan import plan
from bench.sweep.runner import Runner
from bench.sweep.store import Store
from tests.reliability import toy_sweep

RUN_BATCHES, RUNS = 400, 10

# Worker processes import this file, too.
if __name__ in ("__main__", "__mp_main__"):
    training.train = toy_sweep.train


def main() -> None:
    workers = int(sys.argv[1])
    os.environ[toy_sweep.SECONDS] = "0"
    first = max(1, workers)
    run_batches = plan(toy_sweep.runs(first + RUN_BATCHES, RUNS))

    def executor(progress: Progress) -> Executor:
        site = training.WorkerSettings(None, None)
        return ProcessExecutor(workers, site, progress) if workers else InProcessExecutor(site, progress)

    with tempfile.TemporaryDirectory() as folder, Runner(executor) as runner:
        store = Store(Path(folder))
        runner.train(run_batches[:first], store)
        begin = time.perf_counter()
        runner.train(run_batches[first:], store)
        took = time.perf_counter() - begin
    print(1000 * took / (RUN_BATCHES * RUNS))


if __name__ == "__main__":
    main()
