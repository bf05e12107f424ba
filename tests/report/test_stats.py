from __future__ import annotations

import math

import numpy as np
import pytest
import scikit_posthocs
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.report import stats
from bench.types import SilobenchError

# Demšar 2006, Table 6: the AUC of four variants of C4.5 (columns) on 14 data sets (rows). In the last row but one he
# ranks the third before the fourth, which print alike, so the third gets a fourth decimal here.
C45 = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
matrices = st.tuples(st.integers(2, 8), st.integers(3, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 4).map(float))
)


def test_radii_of_five_runs_by_hand():
    # s = sqrt(2.5); t(4) gives 2.776 / sqrt(5) = 1.2415 standard deviations, the normal 1.960 / sqrt(5) = 0.8765.
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert stats.t_radius(values) == pytest.approx(1.2415 * math.sqrt(2.5), rel=5e-4)
    assert stats.normal_radius(values) == pytest.approx(0.8765 * math.sqrt(2.5), rel=5e-4)
    interval = scipy.stats.t.interval(0.95, 4, loc=3.0, scale=scipy.stats.sem(values))
    assert (3.0 - stats.t_radius(values), 3.0 + stats.t_radius(values)) == pytest.approx(interval)


def test_one_value_has_no_radius():
    assert stats.t_radius([0.7]) is None
    assert stats.normal_radius([0.7]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_mean_stays_in_range(values):
    assert min(values) <= stats.mean(values) <= max(values)


@pytest.mark.parametrize("n", [3, 6, 7, 11, 23])
def test_mean_of_equal_values_is_that_value(n):
    assert stats.mean([0.1] * n) == 0.1


def test_ranks_and_critical_difference_of_demsar():
    report = stats.rank(["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], C45)
    assert report.average.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    assert report.critical_difference == pytest.approx(1.25, abs=0.005)
    assert report.blocks == 14


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_difference_against_printed_quantiles(k, q):
    """Demšar 2006, Table 5 (a)."""
    report = stats.rank([str(method) for method in range(k)], np.arange(6 * k, dtype=float).reshape(6, k))
    assert report.critical_difference == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 6)), rel=5e-4)


def test_friedman_and_iman_davenport_by_hand():
    # Ranks (1 2 3), (1 3 2), (1 2 3): mean ranks 1, 7/3, 8/3; chi2 = 14/3; F = 2 chi2 / (6 - chi2) = 7.
    report = stats.rank(["a", "b", "c"], np.array([[0.9, 0.8, 0.7], [0.5, 0.3, 0.4], [0.3, 0.2, 0.1]]))
    assert report.average == pytest.approx([1, 7 / 3, 8 / 3])
    assert report.chi2 == pytest.approx(14 / 3)
    assert report.p == pytest.approx(math.exp(-7 / 3))
    assert report.f == pytest.approx(7.0)
    assert report.f_p == pytest.approx(scipy.stats.f.sf(7.0, 2, 4))


@given(matrices)
def test_friedman_and_nemenyi_equal_the_libraries(values):
    report = stats.rank([str(method) for method in range(values.shape[1])], values)
    if (values == values[:, :1]).all():
        assert (report.chi2, report.p) == (0.0, 1.0)
    else:
        expected = scipy.stats.friedmanchisquare(*values.T)
        assert (report.chi2, report.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert report.pairwise == pytest.approx(scikit_posthocs.posthoc_nemenyi_friedman(values).to_numpy(), abs=1e-6)


def test_blocks_are_rows():
    """Equal methods on blocks of different difficulty do not differ; the transposed reading says they do."""
    difficulty = np.linspace(0.1, 0.9, 8)[:, None]
    assert stats.rank(list("abcde"), difficulty + np.zeros(5)).p == 1.0
    noise = np.random.default_rng(1).normal(scale=0.01, size=(8, 5))
    assert stats.rank(list("abcde"), difficulty + noise).p > 0.05
    assert stats.rank(list("abcdefgh"), (difficulty + noise).T).p < 1e-4


def test_ties_survive_rounding_errors():
    report = stats.rank(["a", "b"], np.array([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]]))
    assert report.average.tolist() == [1.5, 1.5]


def test_one_order_in_every_block_is_the_limit():
    report = stats.rank(["a", "b", "c"], np.array([[3.0, 2.0, 1.0]] * 4))
    assert report.chi2 == pytest.approx(8.0)  # blocks x (k - 1)
    assert (report.f, report.f_p) == (math.inf, 0.0)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (0, 3), (4, 2)])
def test_too_few_blocks_or_methods_are_refused(shape):
    methods = ["a", "b", "c"][: 1 if shape[1] == 1 else 3]
    with pytest.raises(SilobenchError, match="at least 2 blocks"):
        stats.rank(methods, np.zeros(shape))


def test_a_hole_is_refused_by_name():
    with pytest.raises(SilobenchError, match="b in block 1"):
        stats.rank(["a", "b"], np.array([[1.0, 2.0], [1.0, np.nan]]))
