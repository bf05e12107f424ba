"""The estimated memory of a run batch: at least what training uses, and at most four times as much."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from bench.sweep.cost.memory import BASE, bytes_needed
from bench.sweep.plan import PlannedBatch
from tests.sweep.scripted import federation, run_batch

# Prints the peak memory of a worker as counted by the kernel, and the part that training used.
TRAIN = """
import sys
from pathlib import Path
from bench.sweep import training
from tests.sweep.cost import test_memory

class WorkerSettings(training.WorkerSettings):
    def federation(self, run):
        return test_memory.federation()

def kilobytes(what):
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1])

training.train(test_memory.run_batch(1), WorkerSettings(None, None))
before = kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
training.train(test_memory.made(sys.argv[1]), WorkerSettings(None, None))
print(1024 * kilobytes("VmHWM"), 1024 * (kilobytes("VmHWM") - before))
"""


def of(made: PlannedBatch, algorithm: str, model: str, *, hidden: Any, **changes: Any) -> PlannedBatch:
    """Return the run batch with another algorithm and model, and changes of its budget."""
    runs = tuple(
        dataclasses.replace(
            run,
            algorithm={"name": algorithm, "options": {}},
            model={"name": model, "options": {"hidden": hidden}},
            budget=dataclasses.replace(run.budget, **changes),
        )
        for run in made.runs
    )
    return dataclasses.replace(made, runs=runs)


def made(name: str) -> PlannedBatch:
    many = run_batch(1, 2, rates=tuple(0.001 * rate for rate in range(1, 61)))
    return {
        "stacked": of(many, "apfl", "mlp", hidden=[128, 128], optimizer="adamw"),
        "looped": of(run_batch(1, 2), "fedavg", "mlp", hidden=[1500, 1500]),
    }[name]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory it has used")
@pytest.mark.parametrize("name", ["stacked", "looped"])
@pytest.mark.slow
def test_the_estimate_is_one_to_four_times_the_memory_that_training_uses(name):
    done = subprocess.run([sys.executable, "-c", TRAIN, name], check=True, capture_output=True, text=True)
    peak, took = map(int, done.stdout.split())
    assert took > 100e6  # large enough for a meaningful comparison
    assert bytes_needed(made(name), federation()) >= peak
    assert bytes_needed(made(name), federation()) - BASE <= 4 * took


def test_a_model_that_cannot_be_built_gets_the_base_memory():
    assert bytes_needed(of(run_batch(1), "fedavg", "mlp", hidden=0), federation()) == BASE


def test_data_by_seed_are_counted_for_each_seed():
    one = run_batch(1, 2)
    runs = tuple(dataclasses.replace(run, data={**run.data, "fingerprint": str(run.seed)}) for run in one.runs)
    samples = [split for client in federation().clients for split in (client.train, client.test)]
    size = sum(split.x.nbytes + split.y.nbytes for split in samples)
    assert bytes_needed(dataclasses.replace(one, runs=runs), federation()) - bytes_needed(one, federation()) == size
