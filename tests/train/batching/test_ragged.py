"""Sequences of different lengths for seeds and clients."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.train.batching.ragged import Ragged, places, starts

lengths = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5)


@given(lengths=lengths)
def test_sequences_are_found_one_by_one_and_padded(lengths: list[tuple[int, int]]) -> None:
    sizes = torch.tensor(lengths).T  # two seeds
    values = torch.arange(1, int(sizes.sum()) + 1)
    ragged = Ragged(values, sizes)
    parts = values.split(sizes.flatten().tolist())
    clients = torch.arange(len(lengths)).flip(0)
    padded = ragged.padded([1, 0], clients)
    assert padded.shape == (2, len(lengths), int(sizes.max()))
    for s in (0, 1):
        for c in range(len(lengths)):
            expected = parts[s * len(lengths) + c].tolist()
            assert ragged[s, c].tolist() == expected
            assert padded[1 - s, len(lengths) - 1 - c].tolist() == expected + [0] * (int(sizes.max()) - len(expected))


def test_starts_and_places() -> None:
    sizes = torch.tensor([[2, 0], [3, 1]])
    assert starts(sizes).tolist() == [[0, 2], [2, 5]]
    assert places(sizes).tolist() == [0, 1, 0, 1, 2, 0]
