"""Early stopping inside a run batch: a run that stops equals a shorter run, and takes no more work."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.train import driver, engine
from bench.train.path import ExecutionPath
from bench.train.rounds import Rounds
from bench.train.snapshots import SnapshotPolicy
from bench.types import Budget, Outcome, SpecError
from tests.train.test_engine import assert_close
from tests.train.toy import federation

BUDGET = Budget(rounds=7, local_steps=2, batch_size=4, test_every=2)
LRS, SEEDS, PATIENCE = (1e-3, 1e38, 10.0, 0.3, 0.1), [3, 4], 2  # the second one diverges
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg_ft": {"every_round": False},  # tunes after the last round only
    "apple": {"budget": 1},  # traces its mixing weights, and downloads more in the first round
    "local": {},
}
STACK_OF_TWO = 2 * 2 * 3 * 151  # weights: settings, seeds, clients


def runs(algorithm: str, path: ExecutionPath, lrs: tuple[float, ...] = LRS, **more: Any) -> engine.TrainedRuns:
    changes = {key: more.pop(key) for key in ("rounds", "patience", "validation", "schedule") if key in more}
    return engine.run(
        federation(), algorithm=algorithm, algorithm_options=CASES[algorithm], model="mlp",
        settings=[{"lr": lr} for lr in lrs], budget=dataclasses.replace(BUDGET, **changes), path=path,
        **{"seeds": SEEDS, **more},
    )  # fmt: skip


def train(algorithm: str, path: ExecutionPath, lrs: tuple[float, ...] = LRS, **more: Any) -> list[Outcome]:
    return runs(algorithm, path, lrs, **more).outcomes


def stop(whole: Outcome, patience: int) -> int | None:
    """Return the round after which a run stops, from the losses of all its rounds; None if it does not."""
    best, lowest = 0, math.inf
    for round_, loss in enumerate(whole.aggregated[:-1], start=1):
        if loss is not None and loss < lowest:
            best, lowest = round_, loss
        if round_ - best >= patience:
            return round_
    return None


@pytest.mark.parametrize("path", ["loop", "stack"])
@pytest.mark.parametrize("algorithm", [
    pytest.param(each, marks=[] if each == "fedavg_ft" else pytest.mark.slow) for each in CASES
])  # fmt: skip
def test_a_stopped_run_equals_a_shorter_run(algorithm: str, path: ExecutionPath) -> None:
    whole = train(algorithm, path)
    found = train(algorithm, path, patience=PATIENCE)
    expected = [stop(outcome, PATIENCE) for outcome in whole]
    assert [outcome.stopped for outcome in found] == expected
    assert None in expected
    assert len(set(expected)) > 2
    for rounds in set(expected):
        shorter = whole if rounds is None else train(algorithm, path, rounds=rounds)
        for number in (n for n, stopped in enumerate(expected) if stopped == rounds):
            assert len(found[number].validation) == (rounds or BUDGET.rounds)
            own, other = dataclasses.replace(found[number], stopped=None), shorter[number]
            if path == "loop":
                assert own == other
            else:
                assert own.communication == other.communication
                assert own.diverged == other.diverged
                if own.status == "finished":
                    assert_close([own], [other])


@pytest.mark.parametrize("budget", [
    dataclasses.replace(BUDGET, patience=PATIENCE),
    Budget(rounds=7, local_epochs=1, batches=2, draws="torch", patience=PATIENCE),
], ids=["keyed", "torch"])  # fmt: skip
@pytest.mark.slow
@pytest.mark.parametrize("path", ["loop", "stack"])
def test_seeds_with_data_of_their_own_stop_alone(path: ExecutionPath, budget: Budget) -> None:
    data = [federation(sizes=sizes) for sizes in ((23, 11, 6), (20, 14, 9), (15, 15, 15))]

    def of(budget: Budget) -> list[Outcome]:
        return engine.train(
            data, algorithm="fedavg", model="mlp", settings=[{"lr": 0.3}], seeds=[4, 2, 3], budget=budget, path=path
        )

    found, without = of(budget), dataclasses.replace(budget, patience=0)
    assert [outcome.stopped for outcome in found] == [stop(outcome, PATIENCE) for outcome in of(without)]
    assert len({outcome.stopped for outcome in found}) > 1
    for number, outcome in enumerate(found):
        shorter = of(dataclasses.replace(without, rounds=len(outcome.validation)))[number]
        assert_close([outcome], [shorter], 0 if path == "loop" else 1e-5)


def test_a_stack_that_stops_at_once_has_the_bits_of_a_shorter_one() -> None:
    lrs = (1e38, 2e38)  # both diverge
    found, shorter = train("fedavg", "stack", lrs, patience=PATIENCE), train("fedavg", "stack", lrs, rounds=PATIENCE)
    assert [dataclasses.replace(outcome, stopped=None) for outcome in found] == shorter


@pytest.mark.parametrize("path", ["loop", "stack"])
def test_patience_for_all_rounds_changes_nothing(path: ExecutionPath) -> None:
    assert train("fedavg", path, patience=BUDGET.rounds) == train("fedavg", path)


def test_models_of_stopped_runs_are_those_of_shorter_runs() -> None:
    found = runs("fedavg", "loop", patience=PATIENCE)
    number = next(n for n, outcome in enumerate(found.outcomes) if outcome.stopped and outcome.status == "finished")
    shorter = runs("fedavg", "loop", rounds=found.outcomes[number].stopped)
    for checkpoint in ("latest", "global", "local"):
        own, other = (each.personal(number, 1, checkpoint)[1]["w"] for each in (found, shorter))
        assert torch.equal(own, other)
    assert torch.equal(found.server(number)[1]["w"], shorter.server(number)[1]["w"])


@pytest.mark.parametrize(("path", "lrs", "seeds"), [
    ("loop", LRS, SEEDS), ("stack", LRS, [1]), ("stack", (3.0,), [1, 2, 3, 4]), ("stack", (3.0,), [4]),
])  # fmt: skip
def test_a_stopped_run_takes_no_more_work(
    path: ExecutionPath, lrs: tuple[float, ...], seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_round, trained = Rounds.train, []

    def counted(self: Rounds, state: Any) -> None:
        trained.append(self.mapper.sizes["H"] * self.mapper.sizes["S"])
        train_round(self, state)

    monkeypatch.setattr(Rounds, "train", counted)
    found = train("fedavg", path, lrs, seeds=seeds, patience=1)
    assert sum(trained) == sum(len(outcome.validation) for outcome in found) < BUDGET.rounds * len(found)


def test_a_setting_leaves_a_stack_when_all_its_runs_have_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    train_round, trained = Rounds.train, []

    def counted(self: Rounds, state: Any) -> None:
        trained.append(self.mapper.sizes["H"])
        train_round(self, state)

    monkeypatch.setattr(Rounds, "train", counted)
    found = train("fedavg", "stack", patience=PATIENCE)
    longest = [max(len(outcome.validation) for outcome in found[n : n + 2]) for n in range(0, len(found), 2)]
    assert trained == [sum(rounds > round_ for rounds in longest) for round_ in range(BUDGET.rounds)]


@pytest.mark.parametrize(("path", "at"), [
    ("loop", 4),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (("loop", 9), *(("stack", at) for at in (2, 3, 5, 9)))),
])  # fmt: skip
def test_a_resumed_run_batch_equals_an_uninterrupted_one(
    path: ExecutionPath, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "STACKED_WEIGHTS", STACK_OF_TWO)
    heard: list[Any] = []
    whole = train("fedavg_ft", path, patience=PATIENCE, tell=lambda *told: heard.append(told))
    finished = [told[0] for told in heard]
    assert finished == sorted(finished)
    assert heard[-1][0] == heard[-1][1]
    policy, train_round, calls = SnapshotPolicy(tmp_path, every_rounds=1), Rounds.train, []

    def cut(self: Rounds, state: Any) -> None:
        calls.append(state.rounds)
        if len(calls) == at + 1:
            raise KeyboardInterrupt
        train_round(self, state)

    monkeypatch.setattr(Rounds, "train", cut)
    with pytest.raises(KeyboardInterrupt):
        train("fedavg_ft", path, patience=PATIENCE, snapshots=policy)
    monkeypatch.setattr(Rounds, "train", train_round)
    again: list[Any] = []
    assert train("fedavg_ft", path, patience=PATIENCE, snapshots=policy, tell=lambda *told: again.append(told)) == whole
    assert [told[:2] for told in again] == [told[:2] for told in heard[at:]]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("asked", "message"), [
    (lambda: train("fedavg", "loop", patience=2, rungs=(2, 7), reduction=2),
     "rungs: runs that are dropped cannot stop early; leave patience out"),
    (lambda: train("fedavg", "loop", patience=2, validation=0),
     "patience = 2: runs stop by validation loss; set validation above 0"),
    (lambda: train("fedavg", "loop", patience=2, schedule="cosine"),
     "patience = 2: the cosine schedule depends on the number of rounds, which early stopping shortens"),
    (lambda: dataclasses.replace(BUDGET, patience=-1), "patience = -1: expected a whole number of rounds"),
    (lambda: dataclasses.replace(BUDGET, patience=1.5), "patience = 1.5: expected a whole number of rounds"),
])  # fmt: skip
def test_patience_that_cannot_be_is_refused(asked: Callable[[], Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        asked()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
