"""Weights and mini-batches that a seed gives in a PyTorch script that loops over DataLoaders."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.rng import derive
from bench.train import engine
from bench.train.batching.torch_order import Loaders
from bench.types import Budget, Client, Federation, SpecError, Split

sizes = st.lists(st.integers(4, 30), min_size=1, max_size=3)


def epochs_of(batches: int) -> Budget:
    return Budget(rounds=1, local_epochs=1, batches=batches, draws="torch")


def script(seed: int, training: Sequence[int], validation: Sequence[int], batches: int) -> Iterator[list[list[int]]]:
    """Yield each epoch's mini-batches of all clients, as a training script that builds no model draws them."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        data = [TensorDataset(torch.arange(n)) for n in training]
        held_out = [TensorDataset(torch.arange(n)) for n in validation]
        loaders = [DataLoader(d, len(d) // batches, shuffle=True, drop_last=True) for d in data]
        for _ in range(3):
            seen: list[list[int]] = [[] for _ in data]
            for step, together in enumerate(zip(*loaders, strict=False)):
                if step < batches:
                    for client in torch.randperm(len(data)):
                        seen[client] += together[client][0].tolist()
            for d, loader in zip(held_out, loaders, strict=True):
                for _ in DataLoader(d, loader.batch_size, shuffle=True):
                    pass
            yield seen


@given(training=sizes, held_out=st.integers(1, 9), batches=st.integers(1, 4), seed=st.integers(0, 5))
def test_mini_batches_are_those_of_a_script(training: list[int], held_out: int, batches: int, seed: int) -> None:
    validation = [held_out] * len(training)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        loaders = Loaders(torch.get_rng_state(), training, validation, epochs_of(batches))
    # An epoch may leave mini-batches of a loader unused; one as long as the shortest loader uses all of that loader.
    for number, expected in enumerate(script(seed, training, validation, batches)):
        found = loaders.epoch(number)
        assert [[len(rows) for rows in each] for each in found] == [[n // batches] * batches for n in training]
        assert [torch.cat(each).tolist() for each in found] == expected


def test_an_epoch_is_the_same_whichever_was_asked_for_before() -> None:
    loaders = Loaders(torch.get_rng_state(), [20, 9], [4, 0], epochs_of(3))
    in_order = [[torch.cat(each).tolist() for each in loaders.epoch(number)] for number in range(4)]
    assert len({str(epoch) for epoch in in_order}) == 4
    for number in (2, 0, 3, 3, 1):
        assert [torch.cat(each).tolist() for each in loaders.epoch(number)] == in_order[number]


def test_torchs_global_generator_is_not_changed() -> None:
    before = torch.get_rng_state()
    Loaders(before, [20], [4], epochs_of(3)).epoch(2)
    assert torch.equal(torch.get_rng_state(), before)


def federation(clients: int) -> Federation:
    def split(n: int) -> Split:
        return Split(torch.randn(n, 3), torch.randint(2, (n, 1)).float())

    return Federation("points", tuple(Client(str(c), split(9), split(4), split(4)) for c in range(clients)), "binary")


def test_initial_weights_are_those_of_torch_with_torch_draws_only() -> None:
    """Every client starts from the weights that the seed gives its model, because torch is seeded before each model."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = nn.Linear(3, 1)
    begun = {}
    for draws in ("torch", "keyed"):
        budget = dataclasses.replace(epochs_of(3), draws=draws)
        run = engine.run(federation(2), algorithm="local", model="logistic", settings=[{"lr": 1e-30}], seeds=[7],
                         budget=budget, path="loop")  # fmt: skip
        begun[draws] = [run.personal(0, client, "latest")[1]["w"] for client in range(2)]
    weights = torch.cat([expected.weight.flatten(), expected.bias]).detach()
    assert all(torch.equal(each, weights) for each in begun["torch"])
    with torch.random.fork_rng():
        torch.manual_seed(derive("initial weights", 7))
        other = nn.Linear(3, 1).weight.flatten()
    assert all(torch.equal(each[:3], other) for each in begun["keyed"])


@pytest.mark.parametrize("unfit", [{"batches": None}, {"local_epochs": 2}, {"local_epochs": None, "local_steps": 3}])
def test_torch_draws_need_batches_and_one_epoch(unfit: dict[str, int | None]) -> None:
    with pytest.raises(SpecError, match='draws = "torch" follows a loop over epochs'):
        Budget(**{"rounds": 1, "local_epochs": 1, "batches": 3, "draws": "torch", **unfit})


def test_local_tuning_may_take_other_epochs_than_a_round() -> None:
    run = engine.run(federation(2), algorithm="fedavg_ft", algorithm_options={"epochs": 2}, model="logistic",
                     settings=[{"lr": 0.1}], seeds=[7], budget=epochs_of(3))  # fmt: skip
    assert run.outcomes[0].status == "finished"


def test_too_few_samples_and_seeds_that_torch_does_not_take_are_refused() -> None:
    with pytest.raises(SpecError, match="batches = 5: a client has only 4 training samples"):
        Loaders(torch.get_rng_state(), [20, 4], [0, 0], epochs_of(5))
    with pytest.raises(SpecError, match='seed -1: with draws = "torch" seeds are whole numbers from 0'):
        engine.run(federation(1), algorithm="local", model="logistic", settings=[{"lr": 0.1}], seeds=[-1],
                   budget=epochs_of(3))  # fmt: skip
