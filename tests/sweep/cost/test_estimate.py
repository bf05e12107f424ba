"""Estimates: exact if time is linear, from a few short trainings that are cached and not recorded.

Most tests use a fake machine whose clock advances by training only.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from bench import spec
from bench.data.metadata import Metadata
from bench.sweep import study as running
from bench.sweep import training
from bench.sweep.cost import calibration
from bench.sweep.cost import estimate as estimating
from bench.sweep.cost.estimate import StudyEstimate, estimate
from bench.sweep.plan import PlannedBatch
from bench.sweep.store import Store
from bench.types import Budget, Federation
from tests import records
from tests.sweep.scripted import run_batch

TRACING, TEST = 3.0, 0.6  # seconds; a test is of three checkpoints
SAMPLES = (12, 9)  # of each client, two and one of them held out


def federation() -> Federation:
    return Federation.from_arrays(
        {
            f"client {n}": {"train": ([[i / n] for i in range(n)], [i % 2 for i in range(n)]), "test": ([[0.0]], [0])}
            for n in SAMPLES
        }
    )


@dataclass
class Machine:
    """A fake machine whose clock advances by the known time of each training only."""

    path: str = "stack"
    clock: float = 0.0
    trained: list[PlannedBatch] = field(default_factory=list)

    def train(self, run_batch: PlannedBatch, site, tell=lambda *told: None) -> list[dict]:
        self.trained.append(run_batch)
        budget = run_batch.runs[0].budget
        self.clock += TRACING
        for round_ in range(1, budget.rounds + 1):
            runs = self.left(run_batch, round_)
            self.clock += self.round(budget, runs, pooled=run_batch.runs[0].algorithm["name"] == "central")
            if round_ in budget.tested:
                self.clock += TEST / 3 * runs
            tell(round_, budget.rounds, None)
        self.clock += TEST * len(run_batch.runs)
        return [records.made(run, path=self.path) for run in run_batch.runs]

    def round(self, budget: Budget, runs: int, *, pooled: bool) -> float:
        """Return the seconds of a round: evaluation and steps; a stack takes as long as its slowest client."""
        sizes = [sum(SAMPLES)] if pooled else SAMPLES
        training = [samples - math.floor(samples * budget.validation) for samples in sizes]
        steps = [budget.local_steps or budget.local_epochs * samples for samples in training]
        if self.path == "stack":
            return (0.2 + 0.02 * max(steps)) * (1 + 0.1 * runs)
        return runs * sum(0.2 + 0.02 * each for each in steps)

    @staticmethod
    def left(run_batch: PlannedBatch, round_: int) -> int:
        """Return how many runs are in training in a round: with rungs, a third of the settings continue after each."""
        passed = sum(rung < round_ for rung in run_batch.rungs)
        return len(run_batch.runs) // 3**passed

    def takes(self, run_batch: PlannedBatch) -> float:
        before = self.clock
        self.train(run_batch, None)
        return self.clock - before


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Machine:
    machine = Machine()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "time", SimpleNamespace(perf_counter=lambda: machine.clock))
    monkeypatch.setattr(training, "train", machine.train)
    monkeypatch.setattr(training, "_loaded", training.RecentCache())
    monkeypatch.setattr(
        training, "load_dataset", lambda name, root, **options: dataclasses.replace(federation(), options=options)
    )
    return machine


def of(made: PlannedBatch, algorithm: str = "fedavg", **budget) -> PlannedBatch:
    """Return the run batch with the toy data of this file, another algorithm and budget."""
    data = made.runs[0].data | {"fingerprint": federation().fingerprint}
    wanted = Budget(**{"rounds": 20, "local_epochs": 5, "batch_size": 1} | budget)
    named = {"name": algorithm, "options": {}}
    runs = [dataclasses.replace(run, data=data, algorithm=named, budget=wanted) for run in made.runs]
    return dataclasses.replace(made, runs=tuple(runs))


GRID = run_batch(1, 2, 3, rates=(0.1, 0.2, 0.3))


@pytest.mark.parametrize("path", ["stack", "loop"])
@pytest.mark.parametrize("wanted", [
    of(GRID, local_epochs=50),
    of(GRID),
    of(GRID, local_epochs=1),
    of(GRID, local_epochs=None, local_steps=4),
    of(GRID, test_every=3),
    of(GRID, patience=1),
    of(GRID, "central"),
    of(GRID, rounds=1),
    of(run_batch(1), local_epochs=1),
], ids=[
    "longest rounds", "long rounds", "short rounds", "few", "curves", "patience", "pooled", "short", "alone",
])  # fmt: skip
def test_the_estimated_cost_is_the_time_of_training(machine: Machine, wanted: PlannedBatch, path: str) -> None:
    machine.path = path
    found = calibration.cost(wanted, None)
    assert max(short.runs[0].budget.rounds for short in machine.trained) == calibration.ROUNDS
    assert not any(short.runs[0].budget.patience for short in machine.trained)  # no timed training stops early
    assert found.seconds(wanted) == pytest.approx(machine.takes(wanted))


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_dropped_settings_cost_nothing_after_their_rung(machine: Machine, path: str, monkeypatch) -> None:
    machine.path = path
    monkeypatch.setattr(f"{__name__}.TEST", 0.0)
    settings = of(run_batch(1, 2, rates=tuple(0.1 * rate for rate in range(1, 10))), rounds=9)
    race = dataclasses.replace(settings, rungs=(1, 3, 9), reduction=3)
    found = calibration.cost(race, None)
    assert found.seconds(race) == pytest.approx(machine.takes(race))
    assert found.seconds(race) < 0.8 * machine.takes(settings)


def test_measured_costs_are_not_measured_again(machine: Machine) -> None:
    first = calibration.cost(of(GRID), None)
    assert machine.trained
    machine.trained.clear()
    assert calibration.cost(of(GRID), None) == first
    assert not machine.trained
    calibration.cost(of(GRID, rounds=21), None)
    assert machine.trained


STUDY = """
title = "A study"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 20
local_epochs = 1
batch_size = 1
"""


@pytest.fixture
def study(machine, tmp_path, monkeypatch):
    """Return a function that makes a study of methods on the toy data; a process starts in five seconds."""

    def metadata(name: str, root: object, options: object) -> Metadata:
        return Metadata.of(vars(training)["load_dataset"](name, root))

    monkeypatch.setattr(running, "dataset_metadata", metadata)
    monkeypatch.setattr(calibration, "start", lambda names: 5.0)

    def study(**models: str) -> spec.StudySpec:
        file = tmp_path / "study.toml"
        methods = [f'[methods.{name}]\nmodel = "{model}"\ngrid.lr = [0.1, 0.2]\n' for name, model in models.items()]
        file.write_text(STUDY + "".join(methods))
        return spec.read(file)

    return study


SEVERAL = {"fedavg": "logistic", "scaffold": "logistic", "fedper": "mlp", "apfl": "mlp", "fedbn": "mlp"}


@pytest.mark.parametrize(("share", "timed"), [(0.0, 2), (100.0, 5)])
def test_more_kinds_are_timed_while_that_takes_a_small_share(
    machine: Machine, study, tmp_path, monkeypatch, share: float, timed: int
) -> None:
    monkeypatch.setattr(estimating, "SHARE", share)
    monkeypatch.setattr(estimating, "PATIENCE", 1e9)
    found = estimate(study(**SEVERAL), Store(tmp_path / "runs"))
    assert (found.runs, found.to_train, found.timed) == (20, 20, timed)
    assert {run.model["name"] for short in machine.trained for run in short.runs} == {"logistic", "mlp"}
    one = machine.takes(of(run_batch(1, 2, rates=(0.1, 0.2)), local_epochs=1))
    assert found.seconds == pytest.approx([one] * 5)
    assert found.wall(1) == pytest.approx(5 + 5 * one)


def test_patience_ends_the_timing_of_a_long_study(study, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(estimating, "SHARE", 100.0)
    monkeypatch.setattr(estimating, "PATIENCE", 0.0)
    assert estimate(study(**SEVERAL), Store(tmp_path / "runs")).timed == 2


def test_a_kind_that_was_not_timed_costs_as_much_as_the_most_similar_ones(
    machine: Machine, study, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(estimating, "SHARE", 0.0)
    wanted = study(**SEVERAL)
    long = dataclasses.replace(wanted.methods["scaffold"].budget, rounds=60)
    methods = dict(wanted.methods) | {"scaffold": dataclasses.replace(wanted.methods["scaffold"], budget=long)}
    found = estimate(dataclasses.replace(wanted, methods=methods), Store(tmp_path / "runs"))
    assert found.timed == 2
    runs = run_batch(1, 2, rates=(0.1, 0.2))
    takes = {rounds: machine.takes(of(runs, local_epochs=1, rounds=rounds)) for rounds in (20, 60)}
    assert sorted(found.seconds or ()) == pytest.approx(sorted([takes[60], *[takes[20]] * 4]), rel=0.1)


def test_workers_start_together_with_the_longest_run_batches() -> None:
    found = StudyEstimate("A study", 4, 4, 5.0, (1.0, 2.0, 4.0, 2.0), 4, 0, 0, ())
    assert [found.wall(workers) for workers in (1, 2, 3, 9)] == [14.0, 10.0, 9.0, 9.0]


def test_the_command_records_nothing_and_counts_recorded_runs(silobench, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "study.toml"
    methods = '[methods.fedavg]\nmodel = "logistic"\ngrid.lr = [0.1, 0.2]\n[methods.local]\nmodel = "logistic"\n'
    file.write_text(STUDY.replace("batch_size = 1", "batch_size = 64") + methods)

    def planned() -> dict:
        status, out, _ = silobench("plan", file, "--json", "--store", "runs")
        assert status == 0
        return json.loads(out)

    before, again = planned(), planned()
    assert before == again
    assert (before["runs"], before["to_train"], before["run_batches"]) == (6, 6, 2)
    assert before["seconds"] > before["start"] > 0
    assert not (tmp_path / "runs").exists()
    assert silobench("sweep", file, "--store", "runs", "--quiet")[0] == 0
    written = sum(each.stat().st_size for each in (tmp_path / "runs/records").iterdir())
    assert before["disk"] == pytest.approx(written, rel=0.2)
    after = planned()
    assert (after["to_train"], after["run_batches"], after["seconds"]) == (0, 0, 0)


def test_without_the_data_the_plan_lists_the_files_to_download(silobench, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    file = tmp_path / "study.toml"
    file.write_text(STUDY.replace("digits", "fed_heart_disease") + '[methods.fedavg]\nmodel = "logistic"\n')
    status, out, _ = silobench("plan", file)
    assert status == 0
    assert "download     fed_heart_disease: heart_disease/processed.cleveland.data" in out
    assert "silobench data prepare fed_heart_disease" in out
