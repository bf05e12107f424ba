"""Printed numbers of one run are compared with where one further run of ours would fall."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from bench.report import statistics


def test_the_interval_of_a_further_run_by_hand():
    values = [1.0, 2.0, 4.0]
    spread = float(np.std(values, ddof=1))
    by_hand = scipy.stats.t.ppf(0.975, 2) * spread * math.sqrt(1 + 1 / 3)
    assert statistics.further_run(statistics.t_radius(values), 3) == pytest.approx(by_hand)
    assert statistics.further_run(None, 1) is None


def test_it_covers_a_further_normal_value_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(size=(4000, 6))
    hits = [
        abs(row[5] - row[:5].mean()) <= statistics.further_run(statistics.t_radius(list(row[:5])), 5) for row in draws
    ]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.012)
