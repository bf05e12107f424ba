"""A process reuses the memory that it frees."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its memory")
def test_memory_is_kept_and_used_again() -> None:
    """A process reuses freed memory in pieces of a local step's size."""
    again = """
import resource, torch
from bench.native.memory import keep_freed_memory
keep_freed_memory()
def step():
    pieces = [torch.ones(10**6) for _ in range(20)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""
    found = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 1000  # a step uses 19,531 pages of 4 kB
