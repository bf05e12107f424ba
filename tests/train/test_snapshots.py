"""An interrupted run that resumes from its snapshot ends like an uninterrupted one, for every algorithm."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import registry
from bench.registry import catalogue
from bench.train import driver, engine
from bench.train.rounds import Rounds
from bench.train.snapshots import Snapshot, SnapshotPolicy
from bench.train.state import RunState
from bench.types import Budget
from tests.reference import models
from tests.train.toy import federation

BUDGET = Budget(rounds=4, local_steps=3, batch_size=4, optimizer="adamw")
ALGORITHMS = [name for name in catalogue("algorithms") if name != "central"]
# The fast tests resume every third algorithm.
RESUMED = [pytest.param(name, marks=[pytest.mark.slow] if i % 3 else []) for i, name in enumerate(ALGORITHMS)]


class _InterruptionError(Exception):
    pass


def _run(name: str, path: str, folder: Path | None = None, **budget: Any) -> engine.TrainedRuns:
    reference = importlib.import_module(f"tests.reference.{name}")
    kind = registry.load("algorithms", name)
    if BUDGET.optimizer not in kind.optimizers:
        budget["optimizer"] = kind.optimizers[0]
    return engine.run(
        federation(), algorithm=name, algorithm_options=getattr(reference, "OPTIONS", {}),
        model=getattr(models, getattr(reference, "MODEL", "mlp"))(), settings=[{"lr": 0.01}, {"lr": 0.02}],
        seeds=[1, 2], budget=dataclasses.replace(BUDGET, **budget), path=path,
        snapshots=folder and SnapshotPolicy(folder, every_rounds=1),
    )  # fmt: skip


def _interrupt_round_two(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt the first training of round 2; return the list to which all rounds are added as they begin."""
    train, begun, interrupted = Rounds.train, [], []

    def interrupt_once(self: Rounds, state: RunState) -> None:
        begun.append(state.rounds)
        if state.rounds == 2 and not interrupted:
            interrupted.append(True)
            raise _InterruptionError
        train(self, state)

    monkeypatch.setattr(Rounds, "train", interrupt_once)
    return begun


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = sorted(catalogue("algorithms")).index(name)
    path = "stack" if number % 2 else "loop"
    # Interrupted before the first point of the learning curves or after it, whether or not aggregates are evaluated.
    changes: dict[str, Any] = {"test_every": 1 + number % 3, "evaluate": ("aggregated", "trained")[number // 2 % 2]}
    whole = _run(name, path, **changes)
    rounds_run = _interrupt_round_two(monkeypatch)
    with pytest.raises(_InterruptionError):
        _run(name, path, tmp_path, **changes)
    assert len(list(tmp_path.iterdir())) == 1
    rounds_run.clear()
    resumed = _run(name, path, tmp_path, **changes)
    assert min(rounds_run) == 2, "the first rounds were run again"
    assert resumed.outcomes == whole.outcomes
    assert all(outcome.curves["rounds"] for outcome in resumed.outcomes)
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_of_another_version_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run("fedavg", "stack")
    begun = _interrupt_round_two(monkeypatch)
    with pytest.raises(_InterruptionError):
        _run("fedavg", "stack", tmp_path)
    begun.clear()
    monkeypatch.setattr(driver, "FORMAT", driver.FORMAT + 1)
    assert _run("fedavg", "stack", tmp_path).outcomes == whole.outcomes
    assert min(begun) == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_snapshot_is_set_aside_and_never_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = Snapshot(tmp_path / "state", "a")
    snapshot.write({"w": {(0, 1, 2): torch.arange(3.0)}, "empty": {}}, {"round": 3})
    found = snapshot.read()
    assert found is not None
    tree, metadata = found
    assert metadata == {"round": 3}
    assert tree["empty"] == {}
    assert tree["w"][0, 1, 2].tolist() == [0, 1, 2]
    assert Snapshot(tmp_path / "state", "b").read() is None
    content = bytearray(snapshot.file.read_bytes())
    for place in (0, 31, 32, 60, len(content) - 1):
        bad = bytearray(content)
        bad[place] ^= 1
        snapshot.file.write_bytes(bad)
        caplog.clear()
        assert snapshot.read() is None
        assert re.search(
            r"state: damaged, its sha256 is .* renamed to state\.damaged, its runs start again", caplog.text
        )
        assert not snapshot.file.exists()
        assert (tmp_path / "state.damaged").read_bytes() == bad


def test_a_snapshot_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Here a file is in the place of the folder."""
    whole = _run("fedavg", "stack")
    (tmp_path / "snapshots").touch()
    trained = _run("fedavg", "stack", tmp_path / "snapshots")
    assert trained.outcomes == whole.outcomes
    (warning,) = [record.getMessage() for record in caplog.records if "snapshots" in record.getMessage()]
    assert warning.startswith(f"{tmp_path / 'snapshots'}: snapshots cannot be written (")
    assert warning.endswith("); training continues without them")
