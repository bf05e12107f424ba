"""Seeds with data of their own, trained together, give the same numbers as separate runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from bench.train import engine
from bench.train.mapping.stack import Stack
from bench.train.path import ExecutionPath
from bench.types import Budget, Client, Federation, SpecError, Split
from tests.train.test_engine import OPTIONS, assert_close
from tests.train.toy import federation

BUDGET = Budget(rounds=3, local_epochs=1, batch_size=5, optimizer="adamw", test_every=2)
ALGORITHMS = ("central", "local", "fedavg", "global_layers", "apple", "scaffold")
SEEDS = [0, 1, 2]


def resplit(seed: int, *, ragged: bool) -> Federation:
    """Return a federation with other samples for every seed; with ``ragged`` also other numbers of samples."""
    generator = torch.Generator().manual_seed(seed)

    def client(own: Client) -> Client:
        assert own.test is not None
        x, y = torch.cat([own.train.x, own.test.x]), torch.cat([own.train.y, own.test.y])
        order, training = torch.randperm(len(x), generator=generator), len(own.train) + (seed if ragged else 0)
        first, last = order[:training], order[training:]
        return dataclasses.replace(own, train=Split(x[first], y[first]), test=Split(x[last], y[last]))

    fed = federation()
    return dataclasses.replace(fed, clients=tuple(map(client, fed.clients)))


def run(algorithm: str, federations: Any, seeds: list[int], path: ExecutionPath) -> engine.TrainedRuns:
    optimizer = "sgd" if algorithm in ("apple", "scaffold") else "adamw"
    return engine.run(
        federations, algorithm=algorithm, algorithm_options=OPTIONS.get(algorithm, {}), model="mlp",
        settings=[{"lr": 0.01}, {"lr": 0.02}], seeds=seeds, budget=dataclasses.replace(BUDGET, optimizer=optimizer),
        path=path,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("path", "ragged"), [("loop", True), ("stack", True), ("stack", False)])
def test_seeds_with_data_of_their_own_equal_runs_of_their_own(
    algorithm: str, path: ExecutionPath, ragged: bool
) -> None:
    federations = [resplit(seed, ragged=ragged) for seed in SEEDS]
    together = run(algorithm, federations, SEEDS, path).outcomes
    apart = [run(algorithm, own, [seed], path).outcomes for seed, own in zip(SEEDS, federations, strict=True)]
    expected = [outcomes[h] for h in range(2) for outcomes in apart]
    assert len({outcome.aggregated for outcome in together}) == len(together)
    if path == "loop":
        assert together == expected
    else:
        assert_close(together, expected)


def test_seeds_share_their_traces() -> None:
    one, three = (
        run("fedavg", [resplit(seed, ragged=False) for seed in seeds], seeds, "loop") for seeds in ([0], SEEDS)
    )
    traces = [len(found.models[0][0].mapper._captured) for found in (one, three)]
    assert traces[0] == traces[1]


def test_test_samples_that_seeds_share_are_stacked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    map_ = Stack.map

    def noted(self: Stack, name: str, hook: Any, axes: Sequence[str], *grids: Any, over: str = "HSC") -> Any:
        kinds.append(axes[-1])
        return map_(self, name, hook, axes, *grids, over=over)

    monkeypatch.setattr(Stack, "map", noted)
    trained = run("local", federation(), SEEDS, "stack")
    rounds, result, *_ = trained.models[0]
    kinds.clear()
    inputs = {(s, c): own.test.x for s in range(3) for c, own in enumerate(federation().clients) if own.test}
    shared = {(s, c): inputs[0, c] for s, c in inputs}
    rounds.outputs(result.checkpoints["latest"], shared)
    rounds.outputs(result.checkpoints["latest"], inputs)
    assert kinds == ["C", "SC"]


def test_federations_of_seeds_must_agree_in_all_but_samples() -> None:
    first = federation()
    renamed = dataclasses.replace(first.clients[0], name="elsewhere")
    others = {
        "clients": dataclasses.replace(first, clients=(renamed, *first.clients[1:])),
        "features": federation(features=12),
        "task": federation("multiclass"),
        "metrics": dataclasses.replace(first, metrics=("auroc",)),
        "preparation of inputs": dataclasses.replace(first, prepare=torch.neg),
        "loss": dataclasses.replace(first, loss={"name": "cross_entropy"}),
        "tested clients": dataclasses.replace(
            first, clients=(dataclasses.replace(first.clients[0], test=None), *first.clients[1:])
        ),
    }
    for what, other in others.items():
        with pytest.raises(SpecError, match=f"toy: the data of seeds 0 and 2 differ in their {what}; "):
            run("fedavg", [first, first, other], SEEDS, "loop")
    with pytest.raises(SpecError, match="2 federations for 3 seeds"):
        run("fedavg", [first, first], SEEDS, "loop")
