"""Counter-based random numbers: equal to the published generator, uniform, and independent of packing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from bench.rng import bits, derive, happens, keys, permutation, uniform
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget
from tests.train.toy import federation


def test_bits_are_splitmix64() -> None:
    # The first three outputs of the authors' generator from seed 0.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    drawn = bits(torch.tensor(0), torch.tensor([1, 2, 3])).tolist()
    assert [number % 2**64 for number in drawn] == expected


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.9])
def test_events_happen_as_often_as_asked(probability: float) -> None:
    n = 200_000
    happened = happens(probability, torch.tensor(derive("test", 1)), (n,)).float()
    deviation = (probability * (1 - probability) / n) ** 0.5
    assert abs(happened.mean().item() - probability) < 5 * deviation
    # Successive events are independent: both happen with the square of the probability.
    pairs = (happened[0::2] * happened[1::2]).mean().item()
    assert abs(pairs - probability**2) < 5 * (probability**2 / (n / 2)) ** 0.5


@pytest.mark.parametrize(("probability", "expected"), [(0.0, False), (1 - 2**-53, True)])
def test_nearly_certain_events(probability: float, expected: bool) -> None:
    assert bool((happens(probability, torch.tensor(5), (1000,)) == expected).all())


def test_uniform_numbers_fill_the_open_unit_interval() -> None:
    n = 200_000
    u = uniform(torch.tensor(derive("test", 2)), n)
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    # The Kolmogorov-Smirnov distance to the uniform distribution that one sample in a million exceeds.
    assert (u.sort().values - torch.arange(n) / n).abs().max() < 2.7 / n**0.5


@given(key=st.integers(0, 2**63 - 1), size=st.integers(0, 200))
def test_a_permutation_has_every_number_once(key: int, size: int) -> None:
    assert sorted(permutation(key, size).tolist()) == list(range(size))


def test_every_order_is_equally_likely() -> None:
    orders = [tuple(permutation(derive("order", i), 3).tolist()) for i in range(6000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    # Chi-squared with 5 degrees of freedom is below 20.5 in 99.9 % of draws.
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 20.5


def test_purposes_have_keys_of_their_own() -> None:
    purposes = [("a", 1), ("a", "1"), ("a1",), ("a", 1, 0), (1, "a"), ("a", 10), ("a", 1, "")]
    assert len({derive(*words) for words in purposes}) == len(purposes)
    assert all(0 <= derive(*words) < 2**63 for words in purposes)
    assert derive("batches", 0, 1, 2) == 1542752954848290187  # as drawn by every published record


@given(words=st.lists(st.tuples(st.integers(), st.integers(-9, 9)), min_size=1, max_size=6))
def test_keys_of_many_draws_are_those_of_each(words: list[tuple[int, int]]) -> None:
    columns = zip(*words, strict=True)
    assert keys("batches", *columns).tolist() == [derive("batches", *each) for each in words]


def test_draws_do_not_depend_on_packing() -> None:
    drawn = keys("key", range(6))
    packed = vmap(vmap(lambda key: happens(0.4, key, (5, 3))))(drawn.view(2, 3))
    alone = torch.stack([happens(0.4, key, (5, 3)) for key in drawn])
    assert torch.equal(packed.view(6, 5, 3), alone)
    longer = happens(0.4, drawn[0], (9, 3))
    assert torch.equal(longer[:5], alone[0])


@pytest.mark.parametrize("path", ["stack", "loop"])
def test_a_run_leaves_torchs_generator_alone(path: ExecutionPath) -> None:
    before = torch.get_rng_state()
    engine.train(
        federation(), algorithm="fedavg", model="mlp", model_options={"dropout": 0.3}, settings=[{"lr": 0.01}],
        seeds=[0, 1], budget=Budget(rounds=1, local_steps=2, batch_size=4), path=path,
    )  # fmt: skip
    assert torch.equal(torch.get_rng_state(), before)
