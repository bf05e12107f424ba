"""Clients of similar sizes in groups."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.train.batching.groups import FEW, PADDING, groups


@given(lengths=st.lists(st.integers(0, 500), min_size=1, max_size=120), most=st.integers(1, 60))
def test_every_client_is_in_one_small_group_with_little_padding(lengths: list[int], most: int) -> None:
    found = groups(torch.tensor(lengths), most)
    assert sorted(torch.cat(found).tolist()) == list(range(len(lengths)))
    for clients in found:
        own = torch.tensor(lengths)[clients]
        assert clients.tolist() == sorted(clients.tolist())
        assert len(clients) <= most
        if len(lengths) > min(FEW, most):
            assert len(own) * int(own.max()) - int(own.sum()) <= PADDING * int(own.sum())


def test_few_clients_stay_together() -> None:
    assert [each.tolist() for each in groups(torch.tensor([1, 1000] * (FEW // 2)), 100)] == [list(range(FEW))]


def test_equal_clients_fill_groups_in_order() -> None:
    assert [each.tolist() for each in groups(torch.full((70,), 9), 32)] == [
        list(range(32)), list(range(32, 64)), list(range(64, 70)),
    ]  # fmt: skip
