"""From a method's settings and seeds to outcomes: names resolved, a mapper chosen, rounds run, models tested."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench import metrics, registry
from bench.algorithms.base import Algorithm
from bench.models.functional import Model, torch_seed
from bench.rng import derive
from bench.settings import fitting, resolve
from bench.train.driver import Driver, Tell
from bench.train.path import ExecutionPath, select_path
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.snapshots import Keeping
from bench.train.state import Trained
from bench.train.task import losses, outputs
from bench.types import Budget, Client, Federation, Outcome, SpecError


@dataclass
class TrainedRuns:
    """A finished run batch: an :class:`Outcome` for every run (settings-major), and the models behind them.

    The models are those of the settings (by number) that were trained to the end since the call was last cut.
    """

    outcomes: list[Outcome]
    models: list[tuple[Sequence[int], Rounds, Trained]]

    def personal(self, run: int, client: int, checkpoint: str) -> tuple[Rounds, dict[str, Any]]:
        """The personal model's tree of one run and client, with the rounds that made it."""
        rounds, trained, h, s = self._find(run)
        client = 0 if rounds.run_batch.algorithm.pooled else client
        if not 0 <= client < rounds.run_batch.sizes["C"]:
            raise SpecError(f"there is no client {client}; clients count from 0")
        return rounds, rounds.mapper.at(trained.checkpoints[checkpoint], (h, s, client))

    def server(self, run: int) -> tuple[Rounds, dict[str, Any]]:
        rounds, trained, h, s = self._find(run)
        return rounds, rounds.mapper.at(trained.server, (h, s))

    def _find(self, run: int) -> tuple[Rounds, Trained, int, int]:
        if not 0 <= run < len(self.outcomes):
            raise SpecError(f"there is no run {run}; runs count from 0")
        for numbers, rounds, trained in self.models:
            setting, s = divmod(run, len(rounds.run_batch.seeds))
            if setting in numbers:
                return rounds, trained, numbers.index(setting), s
        raise SpecError(f"the models of run {run} are not kept: it was dropped, or ended before training was cut")


def train(
    federation: Federation | Sequence[Federation],
    *,
    algorithm: str,
    model: str,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: ExecutionPath = "auto",
    rungs: Sequence[int] = (),
    reduction: int = 0,
    snapshots: Keeping | None = None,
    tell: Tell = lambda finished, rounds, best: None,
) -> list[Outcome]:
    """Train every setting with every seed; the outcomes are in settings-major order."""
    return run(
        federation, algorithm=algorithm, model=model, settings=settings, seeds=seeds, budget=budget,
        model_options=model_options, algorithm_options=algorithm_options, path=path, rungs=rungs, reduction=reduction,
        snapshots=snapshots, tell=tell,
    ).outcomes  # fmt: skip


def build_model(
    name: str, federation: Federation, options: Mapping[str, Any] | None = None, client: int = 0
) -> nn.Module:
    """The registered network ``name`` for a client's inputs and the federation's task."""
    registry.check_options("models", name, options or {})
    make = registry.load("models", name)
    own = federation.clients[client]
    module: nn.Module = make(
        tuple(_first(federation, own).shape[1:]), outputs.output_size(federation, own), **(options or {})
    )
    if federation.embeddings is not None:
        begin_from = getattr(module, "begin_from", None)
        if begin_from is None:
            raise SpecError(f"model {name} looks up no tokens: leave out the option embeddings of {federation.name}")
        begin_from(federation.embeddings)
    return module


def _first(federation: Federation, client: Client) -> Tensor:
    """The client's first inputs (2, ...), as the model sees them."""
    x = client.train.x[:2]
    return x if federation.prepare is None else federation.prepare(x)


def run(
    federation: Federation | Sequence[Federation],
    *,
    algorithm: str,
    model: str | nn.Module,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: ExecutionPath = "auto",
    rungs: Sequence[int] = (),
    reduction: int = 0,
    snapshots: Keeping | None = None,
    tell: Tell = lambda finished, rounds, best: None,
) -> TrainedRuns:
    """As :func:`train`, keeping the trained models. ``model`` may be a module, whose weights begin every run.

    Of several federations, one for each seed, each may have samples of its own, but they agree in everything else.
    At all ``rungs`` (rounds) but the last, which is the budget's, the 1 / ``reduction`` settings with the lowest
    validation losses go on; the outcomes of the others are those of runs with so many rounds.
    With ``snapshots`` the state is kept now and then; the same call goes on from it after it was cut, and removes it
    at the end. ``tell`` hears after every round how many are finished, of how many, and the lowest aggregated
    validation loss so far.
    """
    _check_seeds(seeds, budget)
    federations = [federation] * len(seeds) if isinstance(federation, Federation) else list(federation)
    _check_alike(federations, seeds)
    resolved = [resolve(algorithm, budget.optimizer, setting) for setting in settings]
    if not resolved:
        raise SpecError("empty grid: give every hyper-parameter at least one value")
    for name in federations[0].metrics:
        metrics.check(name)
    registry.check_options("algorithms", algorithm, algorithm_options or {})
    kind: type[Algorithm] = registry.load("algorithms", algorithm)
    run_batch = _run_batch(federations, kind(**(algorithm_options or {})), algorithm, model, model_options,
                             resolved, seeds, budget)  # fmt: skip
    with _tiny_numbers_as_zero():
        driver = Driver(run_batch, select_path(run_batch, path), rungs, reduction, snapshots, tell)
        return TrainedRuns(driver.run(), driver.finished)


@contextmanager
def _tiny_numbers_as_zero() -> Iterator[None]:
    """Numbers below 1.2e-38, which a model that has learnt its samples by heart is full of, cost as much as others.

    A processor takes a hundred times as long for arithmetic with them as for arithmetic with 0.
    """
    before = not bool(torch.tensor(1e-40) * 1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _check_seeds(seeds: Sequence[int], budget: Budget) -> None:
    if not seeds:
        raise SpecError("no seeds: give at least one")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise SpecError(f"seed {seed!r}: expected a whole number")
        if budget.draws == "torch" and not 0 <= seed < 2**64:
            raise SpecError(f'seed {seed}: with draws = "torch" seeds are whole numbers from 0 to 2^64 - 1')
    if len(set(seeds)) < len(seeds):
        raise SpecError("a seed stands more than once; runs with equal seeds are equal, not repetitions")


def _check_alike(federations: Sequence[Federation], seeds: Sequence[int]) -> None:
    """Refuse federations that differ between seeds in more than their samples."""
    if len(federations) != len(seeds):
        raise SpecError(f"{len(federations)} federations for {len(seeds)} seeds: give one, or one for each seed")
    first = federations[0]
    others = {id(each): each for each in federations if each is not first}.values()
    wanted = _in_common(first) if others else {}
    for other in others:
        for what, found in _in_common(other).items():
            if found != wanted[what]:
                seed = seeds[[each is other for each in federations].index(True)]
                text = f"the data of seeds {seeds[0]} and {seed} differ in their {what}"
                raise SpecError(f"{first.name}: {text}; seeds trained together may differ in samples alone")


def _in_common(federation: Federation) -> dict[str, Any]:
    """What the federations of all seeds agree in."""
    inputs = [(own.train.x.shape[1:], own.train.x.dtype) for own in federation.clients]
    vectors = federation.embeddings
    return {
        "task": federation.task,
        "metrics": federation.metrics,
        "clients": [client.name for client in federation.clients],
        "features": inputs,
        "classes": [federation.classes, *(client.classes for client in federation.clients)],
        "tested clients": [client.test is not None for client in federation.clients],
        "loss": dict(federation.loss),
        "preparation of inputs": federation.prepare,
        "augmentation": federation.augment,
        "embeddings": None if vectors is None else hashlib.sha256(vectors.numpy().tobytes()).hexdigest(),
    }


def _run_batch(
    federations: Sequence[Federation],
    algorithm: Algorithm,
    name: str,
    model: str | nn.Module,
    model_options: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
) -> RunBatch:
    """Models and initial weights for every training client, checked against the data."""
    federation = federations[0]
    model = fitting(name, model) if isinstance(model, str) else model
    clients = range(1 if algorithm.pooled else len(federation.clients))

    def module(client: int) -> nn.Module:
        made = model if isinstance(model, nn.Module) else build_model(model, federation, model_options, client)
        return algorithm.prepare(made)

    models: dict[Any, Model] = {}
    seen = [(own, _first(federation, own)) for own in federation.clients[: len(clients)]]
    shapes = [(x.shape[1:], outputs.output_size(federation, own)) for own, x in seen]
    for client, (shape, (own, x)) in enumerate(zip(shapes, seen, strict=True)):
        if shape not in models:
            with torch_seed(0):
                models[shape] = Model(module(client))
            outputs.check_output(models[shape], federation, own, x)
            for other in {id(each): each for each in federations if each is not federation}.values():
                outputs.check_vocabulary(models[shape], other, x)
    first = models[shapes[0]]
    kind = outputs.output_kind(first, seen[0][1])
    if algorithm.parallel and not first.parallel:
        raise SpecError(
            f"{name} needs a model with local_extractor, global_extractor and head; "
            f"give parallel_mlp or a module with these three parts"
        )
    drawn: dict[tuple[Any, ...], Tensor] = {}

    def initial(seed: int, client: int) -> Tensor:
        shape = shapes[client]
        if isinstance(model, nn.Module):
            return models[shape].initial
        own = (client,) if algorithm.independent_init else ()
        if (seed, shape, own) not in drawn:
            with torch_seed(seed if budget.draws == "torch" else derive("initial weights", seed, *own)):
                drawn[seed, shape, own] = Model(module(client)).initial
        return drawn[seed, shape, own]

    def generator(seed: int) -> Tensor:
        with torch_seed(seed):
            module(clients[-1])
            return torch.get_rng_state()

    run_batch = RunBatch(
        federations, algorithm, [models[shape] for shape in shapes], initial, generator,
        losses.criterion(federation, kind), kind, budget, settings, seeds,
    )  # fmt: skip
    if algorithm.validates and not any(len(held_out) for _, held_out in run_batch.splits.values()):
        raise SpecError(f"{name} needs validation samples: set validation above 0")
    if len({exchange.size for exchange in run_batch.exchanges}) > 1:
        raise SpecError(f"{name}: what travels of the model differs in size between clients of {federation.name}")
    federated = not algorithm.pooled and not algorithm.cross_evaluate
    if federated and run_batch.exchanges[0].size == 0:
        raise SpecError(f"{name} shares no weight of this model: it has no part that travels; choose another model")
    return run_batch
