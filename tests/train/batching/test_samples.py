"""Samples in several parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.train.batching.samples import Samples, Shelf
from bench.types import Client, Split

sizes = st.integers(1, 60)


@given(
    training=st.lists(sizes, min_size=1, max_size=3),
    validation=st.none() | st.lists(sizes, min_size=1, max_size=3),
    picks=st.lists(st.integers(0, 10_000), max_size=12),
)
def test_rows_of_several_parts_equal_rows_of_their_concatenation(
    training: list[int], validation: list[int] | None, picks: list[int]
) -> None:
    def part(n: int) -> Split:
        return Split(torch.rand(n, 2, 3), torch.randint(5, (n,)))

    own, fixed = [part(n) for n in training], None if validation is None else [part(n) for n in validation]
    samples = Samples(own, fixed)
    everything = [*own, *(fixed or [])]
    joined = [torch.cat([getattr(each, axis) for each in everything]) for axis in "xy"]
    rows = torch.tensor(picks, dtype=torch.int64) % len(joined[0])
    for shape in ((-1,), (1, 1, -1)):
        x, y = samples[rows.reshape(shape)]
        assert torch.equal(x, joined[0][rows.reshape(shape)])
        assert torch.equal(y, joined[1][rows.reshape(shape)])


@pytest.mark.parametrize("limit", [0, 2**30])
def test_samples_of_many_clients_are_read_together_or_one_by_one(limit: int) -> None:
    def client(n: int, value: int) -> Samples:
        x = torch.arange(n).float()[:, None] + 100 * value
        return Samples([Split(x, x[:, 0].long())], [Split(x[:1], x[:1, 0].long())])

    first, second = [client(5, 0), client(3, 1)], [client(5, 2), client(3, 3)]
    shelf = Shelf([first, second, first], limit)
    rows = torch.randint(0, 3, (4, 2, 2, 6))
    x, y = shelf.read(rows, [2, 1], torch.tensor([1, 0]))
    for i, samples in enumerate((first, second)):
        for j, c in enumerate((1, 0)):
            expected_x, expected_y = samples[c][rows[:, i, j]]
            assert torch.equal(x[:, i, j], expected_x)
            assert torch.equal(y[:, i, j], expected_y)


def test_mapped_files_are_not_read_as_a_whole(tmp_path: Path) -> None:
    """Rows that are not asked for are not read, so that files may be larger than memory."""
    rows = 2**26  # of 1 KiB: 64 GiB, almost none of them on disk
    with (tmp_path / "x").open("wb") as file:
        file.truncate(rows * 2**10)
    mapped = np.memmap(tmp_path / "x", np.uint8, "r+", shape=(rows, 2**10))
    mapped[3], mapped[-1] = 5, 7
    x, y = torch.from_numpy(mapped), torch.zeros(1).expand(rows, 1)
    half = rows // 2
    clients = tuple(
        Client(name, Split(x[:half], y[:half]), validation=Split(x[half:], y[half:])) for name in ("a", "b")
    )
    samples = Samples([each.train for each in clients], [each.validation for each in clients if each.validation])
    found, _ = samples[torch.tensor([3, half + 3, 2 * rows - 1, 2 * half])]
    assert found[:, 0].tolist() == [5, 5, 7, 0]
