"""Mini-batch schedules and the split into training and validation samples."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.rng import derive, permutation
from bench.train.batching import schedule
from bench.train.batching.client_data import ClientData
from bench.train.batching.shuffle import permutations
from bench.types import Budget, Client, Federation, RunSpec, SpecError, Split
from tests.train import plain_schedule

sizes = st.integers(1, 60)
batch_sizes = st.integers(1, 70)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Draw a budget with every way of cutting an epoch; a client needs at least three samples."""
    length = draw(st.sampled_from([{"local_epochs": 1}, {"local_epochs": 2}, {"local_steps": 1}, {"local_steps": 7}]))
    kind = draw(st.sampled_from([
        {"batch_size": "full"}, {"batches": 3},
        *({"batch_size": size, "last_batch": last} for size in (1, 4, 50) for last in ("keep", "drop", "merge")),
    ]))  # fmt: skip
    return Budget(rounds=1, **length, **kind)


@given(
    budget=budgets(), counts=st.lists(st.tuples(st.integers(3, 40), st.integers(3, 40)), min_size=1, max_size=4),
    round_=st.integers(-3, 3), first=st.integers(-5, 5),
)  # fmt: skip
def test_mini_batches_of_all_clients_are_those_of_each(
    budget: Budget, counts: list[tuple[int, int]], round_: int, first: int
) -> None:
    seeds, clients = [5, 2**70], range(first, first + len(counts))
    positions, lengths = schedule.mini_batches(budget, torch.tensor(counts).T, seeds, clients, round_)
    for s, seed in enumerate(seeds):
        for place, client in enumerate(clients):
            expected = plain_schedule.mini_batches(budget, counts[place][s], seed, client, round_)
            own = lengths[:, s, place].tolist()
            assert own == [len(each) for each in expected] + [0] * (len(own) - len(expected))
            for rows, size, each in zip(positions[:, s, place], own, expected, strict=False):
                assert rows[:size].tolist() == each.tolist()
                assert not rows[size:].any()


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=50))
def test_orders_of_many_clients_are_those_of_each(counts: list[int]) -> None:
    keys = [derive("order", number) for number in range(len(counts))]
    orders = permutations(torch.tensor(keys), torch.tensor(counts)).split(counts)
    assert [each.tolist() for each in orders] == [
        permutation(*pair).tolist() for pair in zip(keys, counts, strict=True)
    ]


def clients_of(counts: list[tuple[int, int | None]], validation: float = 0.3) -> ClientData:
    """Return data of two seeds; a client has training samples and, if not None, fixed validation samples."""

    def part(n: int) -> Split:
        return Split(torch.zeros(n, 1), torch.zeros(n, 1))

    made = [Client(str(c), part(n), validation=None if v is None else part(v)) for c, (n, v) in enumerate(counts)]
    return ClientData([Federation("toy", tuple(made), "binary")] * 2, False, [3, 8], validation)


@given(
    counts=st.lists(st.tuples(sizes, st.none() | st.integers(1, 9)), min_size=1, max_size=5), share=st.floats(0, 0.99)
)
def test_splits_of_all_clients_are_those_of_each(counts: list[tuple[int, int | None]], share: float) -> None:
    data = clients_of(counts, share)
    for s, seed in enumerate(data.seeds):
        for c, (samples, fixed) in enumerate(counts):
            expected = plain_schedule.split(samples, share, seed, c)
            if fixed is not None:
                expected = torch.arange(samples), torch.arange(samples, samples + fixed)
            assert [rows[s, c].tolist() for rows in data.splits] == [rows.tolist() for rows in expected]
            assert data.counts[:, s, c].tolist() == [len(rows) for rows in expected]


@given(counts=st.lists(st.tuples(st.integers(0, 40), batch_sizes), min_size=1, max_size=6))
def test_weights_of_all_clients_are_those_of_each(counts: list[tuple[int, int]]) -> None:
    samples, size = torch.tensor(counts).T
    expected = torch.cat([plain_schedule.mean_over_batches(*each) for each in counts])
    assert torch.equal(schedule.mean_over_batches(samples, size), expected)


@given(samples=sizes, size=batch_sizes, epochs=st.integers(1, 3), seed=st.integers(0, 5), round_=st.integers(0, 3))
def test_an_epoch_visits_every_sample_once(samples: int, size: int, epochs: int, seed: int, round_: int) -> None:
    budget = Budget(rounds=1, local_epochs=epochs, batch_size=size)
    made = plain_schedule.mini_batches(budget, samples, seed, client=1, round_=round_)
    per_epoch = math.ceil(samples / min(size, samples))
    assert len(made) == plain_schedule.local_steps(budget, samples) == epochs * per_epoch
    for epoch in range(epochs):
        mine = made[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(torch.cat(mine).tolist()) == list(range(samples))
        assert [len(batch) for batch in mine[:-1]] == [min(size, samples)] * (per_epoch - 1)
        assert len(mine[-1]) == samples - min(size, samples) * (per_epoch - 1)


@given(samples=sizes, size=batch_sizes, steps=st.integers(1, 20))
def test_steps_are_the_beginning_of_enough_epochs(samples: int, size: int, steps: int) -> None:
    made = plain_schedule.mini_batches(Budget(rounds=1, local_steps=steps, batch_size=size), samples, 0, 0, 0)
    epochs = math.ceil(steps / math.ceil(samples / size))
    long = plain_schedule.mini_batches(Budget(rounds=1, local_epochs=epochs, batch_size=size), samples, 0, 0, 0)
    assert len(made) == steps
    assert all(map(torch.equal, made, long[:steps]))


def test_reshuffled_between_epochs_rounds_clients_and_seeds() -> None:
    budget = Budget(rounds=2, local_epochs=2, batch_size=40)
    orders = [
        tuple(batch.tolist())
        for seed, client, round_ in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        for batch in plain_schedule.mini_batches(budget, 40, seed, client, round_)
    ]
    assert len(set(orders)) == 8


def test_full_batch_takes_every_sample_in_every_step() -> None:
    made = plain_schedule.mini_batches(Budget(rounds=1, local_steps=3, batch_size="full"), 7, 0, 0, 0)
    assert [sorted(batch.tolist()) for batch in made] == [list(range(7))] * 3
    assert plain_schedule.local_steps(Budget(rounds=1, local_epochs=2, batch_size="full"), 7) == 2


@pytest.mark.parametrize(
    ("samples", "training", "validation"),
    # FENDA-FL: Fed-Heart-Disease's four hospitals, and 486 training samples.
    [(199, 160, 39), (172, 138, 34), (30, 24, 6), (85, 68, 17), (486, 389, 97)],
)
def test_a_fifth_is_held_out_rounded_down(samples: int, training: int, validation: int) -> None:
    assert [len(part) for part in plain_schedule.split(samples, 0.2, seed=3, client=2)] == [training, validation]


@given(samples=sizes, share=st.floats(0, 0.99), seed=st.integers(0, 3), client=st.integers(0, 3))
def test_training_and_validation_partition_the_samples(samples: int, share: float, seed: int, client: int) -> None:
    training, validation = plain_schedule.split(samples, share, seed, client)
    assert sorted(training.tolist() + validation.tolist()) == list(range(samples))
    assert len(training) > 0


@pytest.mark.parametrize(("samples", "share", "held_out"), [(10, 0.3, 3), (100, 0.29, 29), (5, 0.2, 1), (4, 0.2, 0)])
def test_shares_are_exact_despite_float_rounding(samples: int, share: float, held_out: int) -> None:
    # 100 * 0.29 is 28.999999999999996.
    assert len(plain_schedule.split(samples, share, 0, 0)[1]) == held_out


def test_splits_differ_between_seeds_and_clients() -> None:
    held_out = {
        tuple(plain_schedule.split(50, 0.2, seed, client)[1].tolist()) for seed in range(3) for client in range(3)
    }
    assert len(held_out) == 9


@given(samples=sizes, size=batch_sizes)
def test_mean_over_batches_counts_a_short_batch_fully(samples: int, size: int) -> None:
    losses = torch.arange(samples, dtype=torch.float32) ** 2
    parts = torch.split(losses, size)
    expected = torch.stack([part.mean() for part in parts]).mean()
    torch.testing.assert_close((losses * plain_schedule.mean_over_batches(samples, size)).sum(), expected)


def test_aligned_batches_continue_over_rounds() -> None:
    """Each epoch of 5 batches has 5 x floor(23 / 5) different samples, for any length of a round."""
    by_step = Budget(rounds=10, local_steps=1, batches=5)
    by_epoch = Budget(rounds=2, local_epochs=1, batches=5)
    steps = [batch for round_ in range(10) for batch in plain_schedule.mini_batches(by_step, 23, 1, 0, round_)]
    epochs = [batch for round_ in range(2) for batch in plain_schedule.mini_batches(by_epoch, 23, 1, 0, round_)]
    assert [batch.tolist() for batch in steps] == [batch.tolist() for batch in epochs]
    for epoch in (steps[:5], steps[5:]):
        assert [len(batch) for batch in epoch] == [4] * 5
        assert len(set(torch.cat(epoch).tolist())) == 20
    assert torch.cat(steps[:5]).tolist() != torch.cat(steps[5:]).tolist()


@given(samples=sizes, size=batch_sizes, last=st.sampled_from(["keep", "drop", "merge"]))
def test_sizes_are_those_of_the_mini_batches(samples: int, size: int, last: str) -> None:
    budget = Budget(rounds=1, local_epochs=1, batch_size=size, last_batch=last)
    lengths = [len(batch) for batch in plain_schedule.mini_batches(budget, samples, 0, 0, 0)]
    assert lengths == schedule.batch_sizes(budget, samples)
    full, rest = divmod(samples, min(size, samples))
    # Only "keep" has a short mini-batch; only "drop" leaves out samples.
    assert len(lengths) == full + (rest > 0 and last == "keep")
    assert sum(lengths) == (full * min(size, samples) if last == "drop" else samples)
    assert last == "keep" or min(lengths) >= min(size, samples)


def test_the_default_keeps_hashes_and_other_values_change_them() -> None:
    def run(**budget: object) -> RunSpec:
        return RunSpec({}, {}, {}, {}, Budget(rounds=1, local_steps=1, **budget), 0)

    assert "last_batch" not in run(last_batch="keep").as_dict()["budget"]
    assert run(last_batch="drop").as_dict()["budget"]["last_batch"] == "drop"
    assert len({run(last_batch=last).hash for last in ("keep", "drop", "merge")}) == 3


def test_last_batch_is_refused_with_batches() -> None:
    with pytest.raises(SpecError, match="last_batch = 'drop': batches already drops the rest"):
        Budget(rounds=1, local_epochs=1, batches=3, last_batch="drop")
    with pytest.raises(SpecError, match="last_batch = 'dropp': did you mean 'drop'"):
        Budget(rounds=1, local_epochs=1, last_batch="dropp")


def test_a_share_that_leaves_a_client_without_samples_is_refused() -> None:
    with pytest.raises(SpecError, match="leaves a client with 5 training samples none; give a smaller share"):
        _ = clients_of([(50, 3), (5, None)], 1 - 1e-12).counts
    assert clients_of([(5, 3)], 1 - 1e-12).counts.flatten().tolist() == [5, 5, 3, 3]
