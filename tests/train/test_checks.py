"""Checks of seeds; those of federations are in test_data_by_seed.py, those of mini-batches in test_batch_norm.py."""

from __future__ import annotations

import numpy as np
import pytest

from bench.train.checks import checked_seeds
from bench.types import Budget, SpecError

BUDGET = Budget(rounds=1, local_steps=1)


@pytest.mark.parametrize("seeds", [[3, 1], (3, 1), np.array([3, 1]), iter([3, 1]), [np.int64(3), 1]])
def test_any_series_of_whole_numbers_is_accepted(seeds: object) -> None:
    found = checked_seeds(seeds, BUDGET)
    assert found == [3, 1]
    assert {type(seed) for seed in found} == {int}


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (3, r"^seeds = 3: expected a list of whole numbers, e\.g\. seeds = \[3\]$"),
        ("12", r"^seeds = '12': expected a list of whole numbers, e\.g\. seeds = \[0, 1\]$"),
        (None, "^seeds = None: expected a list"),
        ([], "^no seeds: give at least one$"),
        ([True], "^seed True: expected a whole number$"),
        ([1, 2, 1], r"^seeds = \[1, 2, 1\]: a seed occurs more than once"),
    ],
)
def test_other_seeds_are_refused(seeds: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        checked_seeds(seeds, BUDGET)
