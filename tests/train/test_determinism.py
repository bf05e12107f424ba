"""The same call in new processes gives the same bytes, for any hash seed of Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CALL = """
import dataclasses, json
from bench.train import engine
from bench.types import Budget
from tests.train.toy import federation

for path in ("stack", "loop"):
    outcomes = engine.train(
        federation("multiclass"), algorithm="apfl", model="mlp", model_options={"dropout": 0.3},
        settings=[{"lr": 0.05}], seeds=[3, 1], path=path,
        budget=Budget(rounds=2, local_epochs=1, batch_size=4, optimizer="adamw"),
    )
    print(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes], sort_keys=True))
"""


@pytest.mark.slow
def test_fresh_processes_agree_to_the_byte() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", CALL], env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True
        )
        for seed in ("1", "77")
    ]
    first, second = (process.communicate(timeout=300)[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert len(first.splitlines()) == 2
    assert first == second
