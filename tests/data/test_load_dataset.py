"""Names and options of data sets."""

from __future__ import annotations

import pytest

from bench.data import load_dataset
from bench.types import SpecError


def test_unknown_data_set_names_the_nearest():
    with pytest.raises(SpecError, match="unknown dataset 'fed_hart_disease': did you mean 'fed_heart_disease'"):
        load_dataset("fed_hart_disease")


def test_unknown_option_names_the_nearest():
    with pytest.raises(SpecError, match="data set 'digits' has no option 'partition_sed': did you mean 'partition_"):
        load_dataset("digits", partition_sed=1)


def test_federation_holds_all_its_options():
    assert load_dataset("digits").options == {"partition_seed": 0}
    assert load_dataset("digits", partition_seed=3).options == {"partition_seed": 3}
