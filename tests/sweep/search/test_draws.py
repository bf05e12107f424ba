"""Searches for settings: grids, random draws and TPE, and their independence of everything but seed and losses."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench import spec
from bench.spec import Method, Setting
from bench.sweep.search.draws import STARTUP_TRIALS, Search

HEAD = """
title = "A search"
seeds = [1]
[data]
name = "digits"
[budget]
rounds = 1
local_steps = 1
batch_size = 4
[methods.{name}]
algorithm = "fedavg"
"""
LISTED = 'model = "logistic"\ngrid.lr = [0.1, 0.01]\ngrid.weight_decay = [0.0, 1.0]\n'
RANGES = """
model = {{ name = "mlp" }}
range.lr = {{ low = 1e-3, high = 10.0, log = true }}
range."model.hidden" = {{ low = 2, high = 5, whole = true }}
grid.weight_decay = [0.0, 0.5]
search = {{ kind = "{kind}", trials = {trials}, seed = {seed} }}
"""


@pytest.fixture
def method(tmp_path: Path):
    def method(text: str, name: str = "fedavg", **filled: object) -> Method:
        file = tmp_path / "study.toml"
        file.write_text((HEAD + text).format(name=name, **filled))
        return spec.read(file).methods[name]

    return method


def drawn(method: Method, loss=lambda setting: 0.5) -> list[Setting]:
    """Run the whole search; ``loss`` gives the loss of each setting."""
    search, found = Search(method), []
    while settings := search.ask():
        found += settings
        search.tell([loss(setting) for setting in settings])
    assert search.drawn == found
    return found


def test_a_grid_asks_for_all_settings_once(method):
    settings = drawn(method(LISTED))
    assert settings == [{"lr": lr, "weight_decay": decay} for lr in (0.1, 0.01) for decay in (0.0, 1.0)]


def test_a_method_without_axes_asks_for_its_fixed_setting(method):
    assert drawn(method('model = "logistic"\nfixed.lr = 0.1\n')) == [{"lr": 0.1}]


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_draws_are_within_their_ranges_and_lists(method, kind):
    settings = drawn(method(RANGES, kind=kind, trials=30, seed=0))
    assert len(settings) == 30
    for setting in settings:
        assert 1e-3 <= setting["lr"] <= 10
        assert setting["model.hidden"] in (2, 3, 4, 5)
        assert setting["weight_decay"] in (0.0, 0.5)
    assert {setting["model.hidden"] for setting in settings} == {2, 3, 4, 5}
    assert sum(setting["lr"] < 0.1 for setting in settings) >= 5  # half of a logarithmic range, 1 % of a linear one


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_a_repeated_search_draws_the_same_and_another_seed_or_method_does_not(method, kind):
    first = drawn(method(RANGES, kind=kind, trials=12, seed=0))
    assert drawn(method(RANGES, kind=kind, trials=12, seed=0)) == first
    assert drawn(method(RANGES, kind=kind, trials=12, seed=1)) != first
    assert drawn(method(RANGES, name="other", kind=kind, trials=12, seed=0)) != first


def test_more_trials_start_with_the_same_settings(method):
    few, many = (drawn(method(RANGES, kind="random", trials=trials, seed=0)) for trials in (4, 9))
    assert many[:4] == few


def test_losses_change_tpe_draws_after_the_startup_trials_only(method):
    def searched(kind: str, sign: int) -> list[Setting]:
        return drawn(method(RANGES, kind=kind, trials=30, seed=0), lambda setting: sign * math.log10(setting["lr"]))

    low, high = searched("tpe", 1), searched("tpe", -1)
    assert low[:STARTUP_TRIALS] == high[:STARTUP_TRIALS]
    assert low[STARTUP_TRIALS:] != high[STARTUP_TRIALS:]
    assert searched("random", 1) == searched("random", -1)


def test_diverged_settings_are_avoided_by_tpe(method):
    def loss(setting: Setting) -> float:
        return math.inf if setting["lr"] > 0.1 else 1.0

    settings = drawn(method(RANGES, kind="tpe", trials=60, seed=0), loss)
    diverged = [math.isinf(loss(setting)) for setting in settings]
    assert sum(diverged[-30:]) < sum(diverged[:STARTUP_TRIALS]) * 3
