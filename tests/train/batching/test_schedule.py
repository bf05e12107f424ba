"""Mini-batches: every sample once an epoch, whatever the sizes, and the split sizes of the papers' data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.train.batching import schedule
from bench.train.batching.samples import Samples
from bench.types import Budget, Client, Split

sizes = st.integers(1, 60)
batch_sizes = st.integers(1, 70)


@given(samples=sizes, size=batch_sizes, epochs=st.integers(1, 3), seed=st.integers(0, 5), round_=st.integers(0, 3))
def test_an_epoch_visits_every_sample_once(samples: int, size: int, epochs: int, seed: int, round_: int) -> None:
    budget = Budget(rounds=1, local_epochs=epochs, batch_size=size)
    made = schedule.mini_batches(budget, samples, seed, client=1, round_=round_)
    per_epoch = math.ceil(samples / min(size, samples))
    assert len(made) == schedule.local_steps(budget, samples) == epochs * per_epoch
    for epoch in range(epochs):
        mine = made[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(torch.cat(mine).tolist()) == list(range(samples))
        assert [len(batch) for batch in mine[:-1]] == [min(size, samples)] * (per_epoch - 1)
        assert len(mine[-1]) == samples - min(size, samples) * (per_epoch - 1)


@given(samples=sizes, size=batch_sizes, steps=st.integers(1, 20))
def test_steps_are_the_beginning_of_enough_epochs(samples: int, size: int, steps: int) -> None:
    made = schedule.mini_batches(Budget(rounds=1, local_steps=steps, batch_size=size), samples, 0, 0, 0)
    epochs = math.ceil(steps / math.ceil(samples / size))
    long = schedule.mini_batches(Budget(rounds=1, local_epochs=epochs, batch_size=size), samples, 0, 0, 0)
    assert len(made) == steps
    assert all(map(torch.equal, made, long[:steps]))


def test_reshuffled_between_epochs_rounds_clients_and_seeds() -> None:
    budget = Budget(rounds=2, local_epochs=2, batch_size=40)
    orders = [
        tuple(batch.tolist())
        for seed, client, round_ in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        for batch in schedule.mini_batches(budget, 40, seed, client, round_)
    ]
    assert len(set(orders)) == 8


def test_full_batch_takes_every_sample_in_every_step() -> None:
    made = schedule.mini_batches(Budget(rounds=1, local_steps=3, batch_size="full"), 7, 0, 0, 0)
    assert [sorted(batch.tolist()) for batch in made] == [list(range(7))] * 3
    assert schedule.local_steps(Budget(rounds=1, local_epochs=2, batch_size="full"), 7) == 2


@pytest.mark.parametrize(
    ("samples", "training", "validation"),
    # FENDA-FL: Fed-Heart-Disease's four hospitals, and 486 training samples.
    [(199, 160, 39), (172, 138, 34), (30, 24, 6), (85, 68, 17), (486, 389, 97)],
)
def test_a_fifth_is_held_out_rounded_down(samples: int, training: int, validation: int) -> None:
    assert [len(part) for part in schedule.split(samples, 0.2, seed=3, client=2)] == [training, validation]


@given(samples=sizes, share=st.floats(0, 0.99), seed=st.integers(0, 3), client=st.integers(0, 3))
def test_training_and_validation_part_the_samples(samples: int, share: float, seed: int, client: int) -> None:
    training, validation = schedule.split(samples, share, seed, client)
    assert sorted(training.tolist() + validation.tolist()) == list(range(samples))
    assert len(training) > 0


@pytest.mark.parametrize(("samples", "share", "held_out"), [(10, 0.3, 3), (100, 0.29, 29), (5, 0.2, 1), (4, 0.2, 0)])
def test_shares_that_floats_miss_are_met(samples: int, share: float, held_out: int) -> None:
    # 100 * 0.29 is 28.999999999999996.
    assert len(schedule.split(samples, share, 0, 0)[1]) == held_out


def test_splits_differ_between_seeds_and_clients() -> None:
    held_out = {tuple(schedule.split(50, 0.2, seed, client)[1].tolist()) for seed in range(3) for client in range(3)}
    assert len(held_out) == 9


@given(samples=sizes, size=batch_sizes)
def test_mean_over_batches_counts_a_short_batch_fully(samples: int, size: int) -> None:
    losses = torch.arange(samples, dtype=torch.float32) ** 2
    parts = torch.split(losses, size)
    expected = torch.stack([part.mean() for part in parts]).mean()
    torch.testing.assert_close((losses * schedule.mean_over_batches(samples, size)).sum(), expected)


def test_mean_over_no_samples_is_empty() -> None:
    assert len(schedule.mean_over_batches(0, 0)) == 0


def test_aligned_batches_run_on_over_rounds() -> None:
    """Whatever a round holds, each epoch of 5 batches shows 5 x floor(23 / 5) different samples, the rest dropped."""
    by_step = Budget(rounds=10, local_steps=1, batches=5)
    by_epoch = Budget(rounds=2, local_epochs=1, batches=5)
    steps = [batch for round_ in range(10) for batch in schedule.mini_batches(by_step, 23, 1, 0, round_)]
    epochs = [batch for round_ in range(2) for batch in schedule.mini_batches(by_epoch, 23, 1, 0, round_)]
    assert [batch.tolist() for batch in steps] == [batch.tolist() for batch in epochs]
    for epoch in (steps[:5], steps[5:]):
        assert [len(batch) for batch in epoch] == [4] * 5
        assert len(set(torch.cat(epoch).tolist())) == 20
    assert torch.cat(steps[:5]).tolist() != torch.cat(steps[5:]).tolist()


# --- samples in several parts ----------------------------------------------------------------------------------------


@given(
    training=st.lists(sizes, min_size=1, max_size=3),
    validation=st.none() | st.lists(sizes, min_size=1, max_size=3),
    picks=st.lists(st.integers(0, 10_000), max_size=12),
)
def test_rows_of_several_parts_are_those_of_one(
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


def test_mapped_files_are_looked_up_where_they_are(tmp_path: Path) -> None:
    """Other rows are not read: a file far larger than what is there of it is no hindrance."""
    rows = 2**26  # of 1 KiB: 64 GiB, hardly any of them on disk
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
