from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from bench.report import statistics


def test_radii_of_five_runs_by_hand():
    # s = sqrt(2.5); t(4) gives 2.776 / sqrt(5) = 1.2415 standard deviations, the normal 1.960 / sqrt(5) = 0.8765.
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert statistics.t_radius(values) == pytest.approx(1.2415 * math.sqrt(2.5), rel=5e-4)
    assert statistics.normal_radius(values) == pytest.approx(0.8765 * math.sqrt(2.5), rel=5e-4)
    interval = scipy.stats.t.interval(0.95, 4, loc=3.0, scale=scipy.stats.sem(values))
    assert (3.0 - statistics.t_radius(values), 3.0 + statistics.t_radius(values)) == pytest.approx(interval)


def test_one_value_has_no_radius():
    assert statistics.sd([0.7]) is None
    assert statistics.t_radius([0.7]) is None
    assert statistics.normal_radius([0.7]) is None
    assert statistics.bootstrap([0.7], "mean") is None
    assert statistics.bootstrap([0.7], "median") is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_mean_stays_in_range(values):
    assert min(values) <= statistics.mean(values) <= max(values)


@pytest.mark.parametrize("n", [3, 6, 7, 11, 23])
def test_mean_of_equal_values_is_that_value(n):
    assert statistics.mean([0.1] * n) == 0.1


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.1, 100)), min_size=1, max_size=20))
def test_weighted_mean_stays_in_range_and_ignores_the_scale_of_weights(pairs):
    values, weights = zip(*pairs, strict=True)
    mean = statistics.mean(values, weights)
    assert min(values) <= mean <= max(values)
    assert mean == pytest.approx(statistics.mean(values, [3 * weight for weight in weights]), abs=1e-6)


def test_sd_has_n_minus_one_in_the_denominator():
    assert statistics.sd([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(math.sqrt(2.5))


def test_undefined_values_are_left_out_not_taken_for_zero():
    assert statistics.defined([0.5, None, 0.0, None]) == [0.5, 0.0]


def test_bootstrap_of_two_values_by_hand():
    # A resample of two is (0, 0) or (1, 1) a quarter of the time each: both lie outside the inner 95 %.
    for of in ("mean", "median"):
        assert statistics.bootstrap([0.0, 1.0], of) == (0.0, 1.0)
    assert statistics.bootstrap([0.0, 1.0]).radius == 0.5


def test_bootstrap_of_equal_values_is_a_point():
    assert statistics.bootstrap([0.5] * 5, "median") == (0.5, 0.5)


def test_bootstrap_of_the_mean_is_near_the_normal_interval():
    values = np.random.default_rng(1).normal(size=50).tolist()
    radius = statistics.bootstrap(values, "mean", resamples=5000).radius
    assert radius == pytest.approx(statistics.normal_radius(values), rel=0.06)


def test_bootstrap_median_covers_the_median_as_often_as_it_says():
    draws = np.random.default_rng(2).exponential(size=(200, 21)).tolist()
    covered = [low <= math.log(2) <= high for low, high in (statistics.bootstrap(values, "median") for values in draws)]
    assert 0.9 <= np.mean(covered) <= 1.0


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.sampled_from(["mean", "median"]), st.randoms())
def test_bootstrap_repeats_in_any_order_and_stays_in_range(values, of, random):
    interval = statistics.bootstrap(values, of, resamples=200)
    shuffled = random.sample(values, len(values))
    assert interval == statistics.bootstrap(shuffled, of, resamples=200)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


def test_bootstrap_is_seeded():
    values = [0.1, 0.4, 0.2, 0.9, 0.7, 0.3]
    assert (
        statistics.bootstrap(values, seed=1)
        == statistics.bootstrap(values, seed=1)
        != statistics.bootstrap(values, seed=2)
    )
