"""Division of runs into run batches: full products, each run once, independent of their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from bench.sweep import plan as planning
from bench.sweep.plan import plan
from bench.types import Budget, RunSpec


def run(lr: float, seed: int, algorithm: str = "fedavg", rounds: int = 3, **more: float) -> RunSpec:
    data = {"name": "toy", "options": {}, "fingerprint": "f", "by_seed": []}
    named = {"name": algorithm, "options": {}}
    model = {"name": "logistic", "options": {}}
    return RunSpec(data, named, model, {"lr": lr, **more}, Budget(rounds, local_steps=1), seed)


GRID = [run(lr, seed) for lr, seed in product((0.1, 0.01), (1, 2, 3))]


def test_a_grid_is_one_run_batch_settings_major():
    (run_batch,) = plan(GRID)
    assert run_batch.settings == ({"lr": 0.01}, {"lr": 0.1})
    assert run_batch.seeds == (1, 2, 3)
    assert [(each.hyperparameters["lr"], each.seed) for each in run_batch.runs] == [
        (0.01, 1), (0.01, 2), (0.01, 3), (0.1, 1), (0.1, 2), (0.1, 3),
    ]  # fmt: skip


def test_settings_that_lack_the_same_seeds_share_a_run_batch():
    other = [run(1.0, seed) for seed in (1, 2, 3)]
    finished = {run(0.1, 2).hash, run(1.0, 2).hash}
    packed = [(run_batch.settings, run_batch.seeds) for run_batch in plan([*GRID, *other], finished)]
    assert packed == [(({"lr": 0.01},), (1, 2, 3)), (({"lr": 0.1}, {"lr": 1.0}), (1, 3))]


def test_the_division_does_not_depend_on_finished_run_batches(monkeypatch):
    monkeypatch.setattr(planning, "MAX_BATCH_RUNS", 2)
    runs = [run(lr / 10, seed) for lr, seed in product(range(1, 6), (1, 2))]
    whole = plan(runs)
    finished = {each.hash for each in whole[1].runs}
    assert plan(runs, finished) == [whole[0], *whole[2:]]


def test_large_inputs_and_data_by_seed_limit_the_size_of_run_batches(monkeypatch):
    assert [len(run_batch.runs) for run_batch in plan(GRID, sample=10_000)] == [3, 3]
    monkeypatch.setattr(planning, "MAX_FEDERATIONS", 2)

    def of_seed(seed: int) -> RunSpec:
        data = {"name": "toy", "options": {"split_seed": seed}, "fingerprint": str(seed), "by_seed": ["split_seed"]}
        return replace(run(0.1, seed), data=data)

    assert [run_batch.seeds for run_batch in plan(map(of_seed, range(5)))] == [(0, 1), (2, 3), (4,)]


def test_halves_have_the_same_runs(monkeypatch):
    (run_batch,) = plan(GRID)
    halves = run_batch.halves()
    assert [half.settings for half in halves] == [({"lr": 0.01},), ({"lr": 0.1},)]
    assert [each for half in halves for each in half.runs] == list(run_batch.runs)
    by_seeds = halves[0].halves()
    assert [half.seeds for half in by_seeds] == [(1,), (2, 3)]
    assert by_seeds[0].halves() == ()


def test_runs_that_cannot_be_stacked_are_in_different_run_batches():
    apart = [run(0.1, 1), run(0.1, 1, "fedprox"), run(0.1, 1, rounds=4), run(0.1, 1, momentum=0.9)]
    assert sorted(len(run_batch.runs) for run_batch in plan(apart)) == [1, 1, 1, 1]


def test_no_run_batch_is_larger_than_the_limit(monkeypatch):
    monkeypatch.setattr(planning, "MAX_BATCH_RUNS", 4)
    runs = [run(lr / 10, seed) for lr, seed in product(range(1, 6), (1, 2))]
    assert [len(run_batch.runs) for run_batch in plan(runs)] == [4, 4, 2]
    monkeypatch.setattr(planning, "MAX_BATCH_RUNS", 1)
    assert [len(run_batch.runs) for run_batch in plan(GRID)] == [1] * 6


@given(
    st.permutations([*GRID, *GRID[:2], *(run(0.1, seed, "fedprox", mu=mu) for seed in (1, 2) for mu in (0.1, 1.0))]),
    st.sets(st.sampled_from([each.hash for each in GRID])),
)
def test_every_missing_run_is_planned_once_in_full_products_in_any_order(runs, finished):
    run_batches = plan(runs, finished)
    counted = Counter(each.hash for run_batch in run_batches for each in run_batch.runs)
    assert counted == Counter({each.hash for each in runs} - finished)
    for run_batch in run_batches:
        cells = [(each.hyperparameters, each.seed) for each in run_batch.runs]
        assert cells == list(product(run_batch.settings, run_batch.seeds))
    assert run_batches == plan(sorted(runs, key=lambda each: each.hash), finished)
