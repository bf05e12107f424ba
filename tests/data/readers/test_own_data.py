"""Test parts of users' sites: their size, and every class in both parts if possible."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.readers.own_data import hold_out, require_classes
from bench.types import DataError

LABELS = st.lists(st.integers(0, 5), min_size=2, max_size=60).map(np.array)


@given(y=LABELS, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 2**32 - 1))
def test_parts_are_disjoint_total_and_of_the_size_asked_for(y: np.ndarray, fraction: float, seed: int):
    train, test = hold_out(y, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert len(test) == min(math.ceil(fraction * len(y)), len(y) - 1)
    assert list(train) == sorted(train)
    assert list(test) == sorted(test)


@given(counts=st.lists(st.integers(4, 20), min_size=2, max_size=4), seed=st.integers(0, 99))
def test_every_class_is_in_both_parts(counts: list[int], seed: int):
    y = np.repeat(np.arange(len(counts)), counts)
    train, test = hold_out(y, 0.5, seed)
    held = np.bincount(y[test], minlength=len(counts))
    assert (np.abs(held - np.array(counts) / 2) <= 1).all()
    assert set(y[train]) == set(range(len(counts)))


def test_a_class_of_one_sample_does_not_hinder():
    train, test = hold_out(np.array([0, 0, 0, 0, 1]), 0.4, 0)
    assert (len(train), len(test)) == (3, 2)


def test_targets_that_are_no_classes_are_refused():
    with pytest.raises(DataError, match=r"mine: has 1001 classes, expected at most 1000; check the target"):
        require_classes("mine", range(1001))
    assert require_classes("mine", "ab") == "binary"
    assert require_classes("mine", "abc") == "multiclass"
