from __future__ import annotations

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
import scikit_posthocs
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.report import ranks
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


def test_ranks_and_critical_difference_of_demsar():
    report = ranks.rank(["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], C45)
    assert report.average.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    assert report.critical_difference == pytest.approx(1.25, abs=0.005)
    assert report.blocks == 14


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_difference_against_printed_quantiles(k, q):
    """Demšar 2006, Table 5 (a)."""
    report = ranks.rank([str(method) for method in range(k)], np.arange(6 * k, dtype=float).reshape(6, k))
    assert report.critical_difference == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 6)), rel=5e-4)


def test_friedman_and_iman_davenport_by_hand():
    # Ranks (1 2 3), (1 3 2), (1 2 3): mean ranks 1, 7/3, 8/3; chi2 = 14/3; F = 2 chi2 / (6 - chi2) = 7.
    report = ranks.rank(["a", "b", "c"], np.array([[0.9, 0.8, 0.7], [0.5, 0.3, 0.4], [0.3, 0.2, 0.1]]))
    assert report.average == pytest.approx([1, 7 / 3, 8 / 3])
    assert report.chi2 == pytest.approx(14 / 3)
    assert report.p == pytest.approx(math.exp(-7 / 3))
    assert report.f == pytest.approx(7.0)
    assert report.f_p == pytest.approx(scipy.stats.f.sf(7.0, 2, 4))


@given(matrices)
def test_friedman_and_nemenyi_equal_the_libraries(values):
    report = ranks.rank([str(method) for method in range(values.shape[1])], values)
    if (values == values[:, :1]).all():
        assert (report.chi2, report.p) == (0.0, 1.0)
    else:
        expected = scipy.stats.friedmanchisquare(*values.T)
        assert (report.chi2, report.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert report.pairwise == pytest.approx(scikit_posthocs.posthoc_nemenyi_friedman(values).to_numpy(), abs=1e-6)


def test_blocks_are_rows():
    """Equal methods on blocks of different difficulty do not differ; the transposed reading says they do."""
    difficulty = np.linspace(0.1, 0.9, 8)[:, None]
    assert ranks.rank(list("abcde"), difficulty + np.zeros(5)).p == 1.0
    noise = np.random.default_rng(1).normal(scale=0.01, size=(8, 5))
    assert ranks.rank(list("abcde"), difficulty + noise).p > 0.05
    assert ranks.rank(list("abcdefgh"), (difficulty + noise).T).p < 1e-4


def test_ties_survive_rounding_errors():
    report = ranks.rank(["a", "b"], np.array([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]]))
    assert report.average.tolist() == [1.5, 1.5]


def test_one_order_in_every_block_is_the_limit():
    report = ranks.rank(["a", "b", "c"], np.array([[3.0, 2.0, 1.0]] * 4))
    assert report.chi2 == pytest.approx(8.0)  # blocks x (k - 1)
    assert (report.f, report.f_p) == (math.inf, 0.0)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (0, 3), (4, 2)])
def test_too_few_blocks_or_methods_are_refused(shape):
    methods = ["a", "b", "c"][: 1 if shape[1] == 1 else 3]
    with pytest.raises(SilobenchError, match="at least 2 blocks"):
        ranks.rank(methods, np.zeros(shape))


def test_a_hole_is_refused_by_name():
    for hole in (None, math.nan, math.inf):
        with pytest.raises(SilobenchError, match="b in block 1 has none; run what is missing"):
            ranks.rank(["a", "b"], [[1.0, 2.0], [1.0, hole]])
    with pytest.raises(SilobenchError, match=r"a in block 0 \(and 1 more\)"):
        ranks.signed_ranks(["a", "b"], [[None, 2.0], [1.0, None]])
    with pytest.raises(SilobenchError, match="b in block 1"):
        ranks.friedman_as_published(["a", "b"], [[1.0, 2.0], [1.0, None]])


@pytest.mark.parametrize("values", [[[1.0, 2.0], [1.0]], [["high", "low"], ["low", "high"]]])
def test_what_is_no_table_of_numbers_is_refused(values):
    with pytest.raises(SilobenchError, match="table of numbers"):
        ranks.rank(["a", "b"], values)


def test_the_published_form_is_the_test_of_the_transposed_table():
    expected = scipy.stats.friedmanchisquare(*C45)
    found = ranks.friedman_as_published(["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], C45)
    assert found == pytest.approx((expected.statistic, expected.pvalue))


def test_groups_by_hand():
    # Mean ranks 1, 2.25, 2.75, 4 on 8 blocks: the critical difference of four methods is 2.569 sqrt(20 / 48) = 1.66.
    low = [[4, 3, 2, 1]] * 6 + [[4, 2, 3, 1]] * 2
    report = ranks.rank(["a", "b", "c", "d"], [[block[i] for i in (3, 0, 2, 1)] for block in low])
    assert report.average.tolist() == [4.0, 1.0, 2.75, 2.25]
    assert report.order == [1, 3, 2, 0]
    assert report.groups == [[1, 3], [3, 2], [2, 0]]


@given(matrices)
def test_groups_hold_exactly_the_pairs_that_do_not_differ(values):
    report = ranks.rank([str(method) for method in range(values.shape[1])], values)
    together = {frozenset(pair) for group in report.groups for pair in combinations(group, 2)}
    alike = {
        frozenset((i, j))
        for i, j in combinations(range(values.shape[1]), 2)
        if abs(report.average[i] - report.average[j]) <= report.critical_difference
    }
    assert together == alike
    assert not any(set(one) < set(other) for one in report.groups for other in report.groups)


def all_signs(differences):
    """Two-sided p by writing down every sign of every difference."""
    size = scipy.stats.rankdata(np.abs(differences))
    centred = [abs(np.dot(signs, size * (differences != 0))) for signs in product((-1, 1), repeat=len(differences))]
    observed = abs(np.dot(np.sign(differences), size))
    return np.mean(np.array(centred) >= observed - 1e-9)


def test_signed_ranks_of_demsar():
    """Demšar 2006, Table 2: rank sums 93 and 12 on 14 data sets, z = -2.54; two differences are zero."""
    (found,) = ranks.signed_ranks(["C4.5", "C4.5+m"], C45[:, :2])
    assert (found.method, found.other, found.won, found.lost) == ("C4.5", "C4.5+m", 2, 10)
    # The normal approximation gives .011; all 2^14 signs say .008.
    assert found.p == found.holm == pytest.approx(all_signs((C45[:, 0] - C45[:, 1]).round(12)))
    assert found.p == pytest.approx(2 * scipy.stats.norm.sf(2.54), abs=5e-3)


@given(arrays(np.float64, st.integers(2, 8), elements=st.integers(-3, 3).map(float)))
def test_signed_ranks_equal_all_signs_whatever_the_ties(differences):
    (found,) = ranks.signed_ranks(["a", "b"], np.stack([differences, np.zeros_like(differences)], axis=1))
    assert found.p == pytest.approx(all_signs(differences))


@pytest.mark.parametrize("blocks", [5, 12, 40])
def test_signed_ranks_equal_the_library_without_ties(blocks):
    values = np.random.default_rng(blocks).normal([0.0, 0.3, 0.6], size=(blocks, 3))
    found = ranks.signed_ranks(["a", "b", "c"], values)
    for pair, (i, j) in zip(found, combinations(range(3), 2), strict=True):
        assert pair.p == pytest.approx(scipy.stats.wilcoxon(values[:, i], values[:, j]).pvalue)
    adjusted = scikit_posthocs.posthoc_wilcoxon(list(values.T), p_adjust="holm").to_numpy()
    assert [pair.holm for pair in found] == pytest.approx([adjusted[i, j] for i, j in combinations(range(3), 2)])


def test_every_method_against_one():
    found = ranks.signed_ranks(["Silo", "FENDA", "FedAvg"], [[0.1 * i, 0.1 * i + 0.2, 0.3] for i in range(6)], "Silo")
    assert [(pair.method, pair.other, pair.won, pair.lost) for pair in found] == [
        ("FENDA", "Silo", 6, 0),
        ("FedAvg", "Silo", 3, 2),
    ]
    assert found[0].p == pytest.approx(2 / 2**6)
    assert found[0].holm == pytest.approx(2 * found[0].p)
    with pytest.raises(SilobenchError, match="did you mean 'Silo'"):
        ranks.signed_ranks(["Silo", "FENDA"], [[1, 2], [2, 3]], "silo")


def test_identical_methods_do_not_differ():
    values = np.linspace(0.1, 0.9, 9)[:, None] + np.zeros(3)
    values[:, 1] += 1e-16
    assert {(pair.p, pair.won, pair.lost) for pair in ranks.signed_ranks(list("abc"), values)} == {(1.0, 0, 0)}


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4, 3, 2, 1 is .02 .03 .06 .04, and may not fall.
    assert ranks.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert ranks.holm([0.6, 0.9]) == [1.0, 1.0]
    assert ranks.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(p):
    adjusted = ranks.holm(p)
    assert all(each <= after <= 1 for each, after in zip(p, adjusted, strict=True))
    order = np.argsort(p, kind="stable")
    assert all(adjusted[i] <= adjusted[j] for i, j in pairwise(order))
