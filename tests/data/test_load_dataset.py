"""Names and options of data sets."""

from __future__ import annotations

import pytest

from bench.data import load_dataset
from bench.types import SpecError


def test_unknown_data_set_names_the_nearest():
    with pytest.raises(SpecError, match="unknown data set 'fed_hart_disease': did you mean 'fed_heart_disease'"):
        load_dataset("fed_hart_disease")


def test_unknown_option_names_the_nearest():
    with pytest.raises(SpecError, match="data set 'digits' has no option 'partition_sed': did you mean 'partition_"):
        load_dataset("digits", partition_sed=1)


def test_a_share_of_every_data_set():
    whole, share = load_dataset("digits"), load_dataset("digits", subsample=0.1)
    assert share.options == {"partition_seed": 0, "subsample": 0.1}
    for all_of, some in zip(whole.clients, share.clients, strict=True):
        for part in ("train", "test"):
            samples, kept = getattr(all_of, part), getattr(some, part)
            assert len(kept) == max(2, len(samples) // 10)
            assert set(kept.x.flatten(1).sum(1).tolist()) <= set(samples.x.flatten(1).sum(1).tolist())
    again = load_dataset("digits", subsample=0.1)
    assert again.fingerprint == share.fingerprint != whole.fingerprint


@pytest.mark.parametrize("share", [0, 1, -0.1, True, "half"])
def test_a_share_that_is_not_between_0_and_1_is_refused(share):
    with pytest.raises(SpecError, match="expected a share above 0 and below 1"):
        load_dataset("digits", subsample=share)


def test_federation_holds_all_its_options():
    assert load_dataset("digits").options == {"partition_seed": 0}
    assert load_dataset("digits", partition_seed=3).options == {"partition_seed": 3}
