from __future__ import annotations

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from bench.report.tables import agreement
from bench.report.tables.agreement import Held

PRINTED = {"FedAvg": 0.724, "FENDA": 0.815, "Silo": 0.748, "APFL": 0.801}
OURS = {"FedAvg": 0.750, "FENDA": 0.810, "Silo": 0.748, "APFL": 0.820}
numbers = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), max_size=6)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((0.74, 0.02, 0.72, 0.0), True),
        ((0.75, 0.03, 0.72, 0.0), True),  # on the border, where 0.75 - 0.72 > 0.03 in floats
        ((0.74, 0.005, 0.72, 0.015), True),  # both radii count
        ((0.74, 0.005, 0.72, 0.014), False),
        ((0.72, None, 0.72, None), True),
        ((0.73, None, 0.72, None), False),
    ],
)
def test_joint_interval(cell, expected):
    assert agreement.agrees(*cell) is expected


def test_cells_without_a_number_count_as_not_agreeing():
    cells = [(0.74, 0.02, 0.72, 0.0), (0.80, 0.01, 0.72, None), (None, None, 0.72, 0.0)]
    assert agreement.within(cells) == Held(1, 3)


@pytest.mark.parametrize(
    ("value", "silo", "starred"),
    [
        ((0.801, 0.006), (0.748, 0.0), True),  # FENDA-FL, Table 2: APFL on Fed-Heart-Disease
        ((0.742, 0.000), (0.748, 0.0), False),  # FedAdam, local
        ((0.760, 0.006), (0.748, 0.01), False),  # above, but inside the intervals
        ((0.760, 0.010), (0.745, 0.005), False),  # level, whatever floats make of 0.760 - 0.010
        ((0.760, None), (0.748, 0.0), False),  # one run says nothing
        ((None, None), (0.748, 0.0), False),
    ],
)
def test_asterisk(value, silo, starred):
    assert agreement.beats(*value, *silo) is starred


def test_conclusions_by_hand():
    printed, ours = agreement.conclusions(PRINTED), agreement.conclusions(OURS)
    # Printed FENDA > APFL > Silo > FedAvg, ours APFL > FENDA > FedAvg > Silo: two of six pairs turn.
    assert printed - ours == {("FENDA", "APFL"), ("Silo", "FedAvg")}
    assert agreement.held(printed, ours) == Held(4, 6)


def test_conclusions_about_silo_need_clear_intervals():
    radii = {"FedAvg": 0.01, "FENDA": 0.02, "Silo": 0.03, "APFL": 0.03}
    ours = agreement.conclusions(OURS, radii, over="Silo")
    assert ours == {("FENDA", "Silo"), ("APFL", "Silo")}
    assert agreement.conclusions(OURS, radii | {"APFL": None}, over="Silo") == {("FENDA", "Silo")}
    printed = agreement.conclusions(PRINTED, dict.fromkeys(PRINTED, 0.0), over="Silo")
    assert agreement.held(printed, ours) == Held(2, 2)


@given(numbers)
def test_a_table_holds_its_own_conclusions(means):
    found = agreement.conclusions(means)
    assert agreement.held(found, found) == Held(len(found), len(found))
    assert not any((b, a) in found for a, b in found)
    ties = sum(means[a] == means[b] for a in means for b in means if a < b)
    assert len(found) == len(means) * (len(means) - 1) // 2 - ties


def test_rank_correlation_by_hand():
    found = agreement.rank_correlation(OURS, PRINTED | {"MOON": 0.9})
    # Two neighbouring pairs of four swapped: rho = 1 - 6 * 4 / (4 * 15), tau = (4 - 2) / 6.
    assert found == (pytest.approx(0.6), pytest.approx(1 / 3), 4)


@pytest.mark.parametrize(
    ("ours", "printed"),
    [({"a": 1, "b": 2}, {"a": 1, "b": 2}), ({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 3}), ({}, PRINTED)],
)
def test_no_order_no_correlation(ours, printed):
    assert agreement.rank_correlation(ours, printed) is None
    assert agreement.rank_correlation(printed, ours) is None


@given(numbers, numbers)
def test_rank_correlations_equal_the_library(ours, printed):
    found = agreement.rank_correlation(ours, printed)
    both = sorted(set(ours) & set(printed))
    if found is not None:
        left, right = [ours[method] for method in both], [printed[method] for method in both]
        assert found.spearman == pytest.approx(scipy.stats.pearsonr(*map(scipy.stats.rankdata, (left, right)))[0])
        assert found.kendall == pytest.approx(scipy.stats.kendalltau(left, right)[0])
        assert found.methods == len(both)
