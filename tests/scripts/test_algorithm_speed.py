"""The table of speeds: every algorithm is in it, and its runs agree with the plain loops."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

from bench.registry import catalogue
from bench.types import Budget, SilobenchError
from tests.train.toy import federation

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("algorithm_speed")
    monkeypatch.setattr(module, "TURNS", 1)
    yield module
    sys.modules.pop("algorithm_speed")


@pytest.fixture
def task(speed):
    """Return a task of three clients with tabular data, three rounds and two steps."""
    (tabular, _) = speed.tasks(federation(), federation())
    budget = Budget(rounds=3, local_steps=2, batch_size=4)
    return dataclasses.replace(tabular, title="Toy", budget=budget, rates=(0.02, 0.01), seeds=(1, 2))


# One of each kind: plain, on pooled samples, with two extractors, with tuning, with options.
@pytest.mark.parametrize("name", ["scaffold", "central", "fenda", "fedbabu", "global_layers"])
def test_an_algorithm_is_timed_against_its_plain_loop(speed, task, name: str) -> None:
    line = speed.measure(task, name)
    assert (line.algorithm, line.taken) == (name, "stack")
    assert [len(times) for times in (line.plain, line.stack, line.loop)] == [speed.TURNS] * 3
    assert min(*line.stack, *line.loop) > 0


def test_runs_that_disagree_are_not_measured(speed, task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "AGREEMENT", -1.0)
    with pytest.raises(
        SilobenchError, match=r"fedavg on Toy: validation losses of silobench \(stack\) and the plain loop"
    ):
        speed.measure(task, "fedavg")


def test_the_table_has_a_line_for_every_algorithm_and_medians_of_ratios(speed) -> None:
    lines = [
        speed.Line(name, [4000.0, 2000, 3000], [40.0, 10, 50], [2000.0, 4000, 1500], "stack") for name in ("a", "b")
    ]
    text = speed.markdown({"A table": lines, "Pictures": lines[:1]})
    # Ratios of the turns: 100, 200, 60 and 2, 0.5, 2.
    row = "| a | 3,000 | 40 | 100 | 2,000 | 2 | stack |"
    assert text.count(row) == 2
    assert text.index("### A table") < text.index(row) < text.index("### Pictures")
    assert text.count("| b |") == 1


def test_every_algorithm_is_measured_on_both_kinds_of_task(speed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "measure", lambda task, name: (task.model, name))
    tabular, images = speed.tasks(federation(), federation())
    assert "SYNTHETIC" in images.title
    lines = speed.measure_all([tabular, images])
    for task, model in ((tabular, "mlp"), (images, "cnn")):
        assert lines[task.title] == [(model, name) for name in catalogue("algorithms")]
