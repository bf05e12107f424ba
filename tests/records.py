"""Records as the engine would leave them, without training anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import spec
from bench.sweep.store import FORMAT
from bench.sweep.study import run_batches
from bench.types import RunSpec

CLIENTS = ("north", "south")
RULES = ("latest", "global", "local")


def asked(file: Path) -> list[RunSpec]:
    """The runs that the study in ``file`` asks for, those it asks for first first."""
    packed, _ = run_batches(spec.read(file), {})
    return [run for run_batch in packed for run in run_batch.runs]


def made(run: RunSpec, loss: float | None = 0.5, score: float = 0.8, **more: Any) -> dict[str, Any]:
    """The record of a run: its loss falls to ``loss`` in the last round, ``score`` is the mean of its clients'.

    Without a loss the run has diverged.
    """
    bad = loss is None
    falling = [None if bad else loss + rounds / 10 for rounds in range(run.budget.rounds)][::-1]
    scores = [[rule, client, client, "accuracy", None if bad else score + (client - 0.5) / 10]
              for rule in RULES for client in range(len(CLIENTS))]  # fmt: skip
    record = {
        "format": FORMAT, "run": run.hash, "spec": run.as_dict(), "status": "diverged" if bad else "finished",
        "diverged": {"round": 0, "client": 1, "what": "a weight is not finite"} if bad else None, "scores": scores,
        "validation": [[each, each] for each in falling], "aggregated": falling, "curves": {}, "traces": {},
        "communication": {"up": 1210, "down": 1210}, "parameters": 1210, "path": "stack", "clients": list(CLIENTS),
        "test_sizes": [10, 20], "synthetic": False, "versions": {"silobench": "0.1.0", "torch": "2.11.0"},
        "environments": [],
    }  # fmt: skip
    return json.loads(json.dumps(record | more))
