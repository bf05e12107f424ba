"""Successive halving inside a run batch: dropped settings equal short runs, kept settings equal whole runs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from bench.train import driver, engine, halving
from bench.train.path import ExecutionPath
from bench.train.rounds import Rounds
from bench.train.snapshots import Snapshot, SnapshotPolicy
from bench.types import Budget, Outcome, SpecError
from tests.train.test_engine import assert_close
from tests.train.toy import federation

BUDGET = Budget(rounds=4, local_steps=2, batch_size=4, test_every=2)
LRS = (1e-3, 1e38, 0.3, 0.03, 0.1)  # the second one diverges
RUNGS, SEEDS = (1, 3, 4), [1, 2]
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg_ft": {"every_round": False},  # tunes after the last round only
    "apple": {"budget": 1},  # traces its mixing weights, and downloads more in the first round
    "local": {},
}
STACK_OF_TWO = 2 * 2 * 3 * 151  # weights: settings, seeds, clients


def run(
    algorithm: str, path: ExecutionPath, lrs: tuple[float, ...] = LRS, rounds: int = 4, **more: Any
) -> list[Outcome]:
    return engine.train(
        federation(), algorithm=algorithm, algorithm_options=CASES[algorithm], model="mlp",
        settings=[{"lr": lr} for lr in lrs], seeds=SEEDS, budget=dataclasses.replace(BUDGET, rounds=rounds), path=path,
        **more,
    )  # fmt: skip


def halved(algorithm: str, path: ExecutionPath, **more: Any) -> list[Outcome]:
    return run(algorithm, path, rungs=RUNGS, reduction=2, **more)


def ended(outcomes: list[Outcome]) -> list[int]:
    """Return the number of rounds of each setting."""
    return [len(outcome.validation) for outcome in outcomes[:: len(SEEDS)]]


@pytest.mark.parametrize("path", ["loop", "stack"])
@pytest.mark.parametrize("algorithm", CASES)
def test_a_dropped_setting_equals_a_shorter_run(algorithm: str, path: ExecutionPath) -> None:
    outcomes = halved(algorithm, path)
    assert sorted(ended(outcomes)) == [1, 1, 3, 4, 4]
    for rung in RUNGS:
        lrs = tuple(lr for lr, rounds in zip(LRS, ended(outcomes), strict=True) if rounds == rung)
        expected = run(algorithm, path, lrs, rung)
        found = [outcome for outcome in outcomes if len(outcome.validation) == rung]
        assert [outcome.communication for outcome in found] == [outcome.communication for outcome in expected]
        assert all(outcome.curves["rounds"][-1] == rung for outcome in found)
        if path == "loop":
            assert found == expected
        else:
            # Losses of diverged runs are NaN and cannot be compared.
            good = [n for n, outcome in enumerate(expected) if outcome.status == "finished"]
            assert [outcome.status for outcome in found] == [outcome.status for outcome in expected]
            assert_close([found[n] for n in good], [expected[n] for n in good])


def test_the_lowest_mean_validation_losses_so_far_are_kept() -> None:
    whole = run("fedavg", "loop")
    alive, expected = list(range(len(LRS))), [0] * len(LRS)
    for rung in RUNGS:
        losses = []
        for number in alive:
            seeds = whole[number * len(SEEDS) : (number + 1) * len(SEEDS)]
            lowest = [min((x for x in each.aggregated[:rung] if x is not None), default=math.inf) for each in seeds]
            diverged = any(each.diverged and each.diverged["round"] < rung for each in seeds)
            losses.append(math.inf if diverged else fmean(lowest))
            expected[number] = rung
        alive = [alive[place] for place in halving.survivors(losses, 2)]
    found = halved("fedavg", "loop")
    assert ended(found) == expected
    assert found[expected.index(4) * 2 : expected.index(4) * 2 + 2] == whole[expected.index(4) * 2 :][:2]


def test_settings_of_several_stacks_run_one_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    together = halved("fedavg", "stack")
    monkeypatch.setattr(driver, "STACKED_WEIGHTS", STACK_OF_TWO)
    parts = halved("fedavg", "stack")
    assert ended(parts) == ended(together)
    good = [n for n, outcome in enumerate(together) if outcome.status == "finished"]
    assert_close([parts[n] for n in good], [together[n] for n in good], 1e-6)


@pytest.mark.parametrize(("path", "trained"), [
    ("loop", 2),  # between two rungs
    ("stack", 1),  # the first of three stacks waits at a rung
    ("stack", 4),  # the first stack continues, the others wait
    ("stack", 6),
])  # fmt: skip
def test_a_resumed_run_batch_equals_an_uninterrupted_one(
    path: ExecutionPath, trained: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "STACKED_WEIGHTS", STACK_OF_TWO)
    whole, policy = halved("fedavg_ft", path), SnapshotPolicy(tmp_path, every_rounds=1)
    train, calls = Rounds.train, []

    def cut(self: Rounds, running: Any) -> None:
        calls.append(running.rounds)
        if len(calls) == trained + 1:
            raise KeyboardInterrupt
        train(self, running)

    monkeypatch.setattr(Rounds, "train", cut)
    with pytest.raises(KeyboardInterrupt):
        halved("fedavg_ft", path, snapshots=policy)
    monkeypatch.setattr(Rounds, "train", train)
    assert halved("fedavg_ft", path, snapshots=policy) == whole
    assert list(tmp_path.iterdir()) == []


def test_a_dropped_settings_models_are_not_kept() -> None:
    found = engine.run(
        federation(), algorithm="fedavg", model="mlp", settings=[{"lr": lr} for lr in LRS], seeds=SEEDS, budget=BUDGET,
        path="loop", rungs=RUNGS, reduction=2,
    )  # fmt: skip
    kept = ended(found.outcomes).index(4) * len(SEEDS)
    rounds, _ = found.personal(kept, 0, "latest")
    assert rounds.run_batch.settings[0] == found.outcomes[kept].hyperparameters
    with pytest.raises(SpecError, match=r"the models of run 2 are not kept"):
        found.personal(2, 0, "latest")  # the setting that diverged
    with pytest.raises(SpecError, match=r"there is no run 10"):
        found.personal(10, 0, "latest")


@pytest.mark.parametrize(("more", "message"), [
    ({"rungs": (1, 3), "reduction": 2}, r"rungs = \[1, 3\]: .* that end with the budget's 4"),
    ({"rungs": (3, 1, 4), "reduction": 2}, r"rungs = \[3, 1, 4\]: must be strictly increasing"),
    ({"rungs": (1, 4), "reduction": 1}, "reduction = 1: expected a whole number of at least 2"),
])  # fmt: skip
def test_rungs_that_are_not_valid_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run("fedavg", "loop", **more)


def test_without_validation_nothing_can_be_dropped() -> None:
    budget = dataclasses.replace(BUDGET, validation=0)
    with pytest.raises(SpecError, match="set validation above 0"):
        engine.train(federation(), algorithm="fedavg", model="logistic", settings=[{"lr": 0.1}], seeds=[1],
                     budget=budget, rungs=(2, 4), reduction=2)  # fmt: skip


@pytest.mark.parametrize("limit", [2**24, STACK_OF_TWO])
def test_progress_is_reported_after_every_round(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "STACKED_WEIGHTS", limit)
    heard: list[Any] = []
    outcomes = run("fedavg", "stack", (0.01, 0.1, 0.3), tell=lambda *told: heard.append(told))
    total = 4 if limit > STACK_OF_TWO else 8
    assert [told[:2] for told in heard] == [(finished, total) for finished in range(1, total + 1)]
    lowest = min(loss for outcome in outcomes for loss in outcome.aggregated if loss is not None)
    assert heard[-1][2] == lowest
    assert heard[0][2] >= lowest


@pytest.mark.parametrize(("every_rounds", "every_seconds", "writes"), [
    (2, math.inf, 2), (None, 0.0, 4), (None, math.inf, 0),
])  # fmt: skip
def test_snapshots_are_kept_by_rounds_or_by_time(
    every_rounds: int | None, every_seconds: float, writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    write = Snapshot.write
    monkeypatch.setattr(Snapshot, "write", lambda self, *given: written.append(given) or write(self, *given))
    run("fedavg", "loop", (0.1,), snapshots=SnapshotPolicy(tmp_path, every_rounds, every_seconds))
    assert len(written) == writes
