"""From a method's settings and seeds to outcomes: names resolved, a mapper chosen, rounds run, models tested."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as Folder
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bench import registry
from bench.algorithms.base import Algorithm
from bench.models.functional import Model, torch_seed
from bench.rng import derive
from bench.train import metrics, task
from bench.train.choice import Path, choose, mapper_of
from bench.train.optim import DEFAULTS, OPTIONAL
from bench.train.population import Population, Rounds, Trained
from bench.train.snapshot import Snapshot
from bench.types import Budget, Client, Federation, Outcome, SpecError, content_hash, nearest

# A stack holds at most so many weights (d x settings x seeds x clients); more settings are run in several stacks.
STACKED_WEIGHTS = 2**24


@dataclass
class Run:
    """A finished population: an :class:`Outcome` for every run (settings-major), and the models behind them."""

    outcomes: list[Outcome]
    populations: list[tuple[Rounds, Trained]]

    def personal(self, run: int, client: int, checkpoint: str) -> tuple[Rounds, dict[str, Any]]:
        """The personal model's tree of one run and client, with the rounds that made it."""
        rounds, trained, h, s = self._find(run)
        client = 0 if rounds.population.algorithm.pooled else client
        if not 0 <= client < rounds.population.sizes["C"]:
            raise SpecError(f"there is no client {client}; clients count from 0")
        return rounds, rounds.mapper.at(trained.checkpoints[checkpoint], (h, s, client))

    def server(self, run: int) -> tuple[Rounds, dict[str, Any]]:
        rounds, trained, h, s = self._find(run)
        return rounds, rounds.mapper.at(trained.server, (h, s))

    def _find(self, run: int) -> tuple[Rounds, Trained, int, int]:
        number = run
        for rounds, trained in self.populations:
            sizes = rounds.population.sizes
            if 0 <= number < sizes["H"] * sizes["S"]:
                return rounds, trained, *divmod(number, sizes["S"])
            number -= sizes["H"] * sizes["S"]
        raise SpecError(f"there is no run {run}; runs count from 0")


def train(
    federation: Federation,
    *,
    algorithm: str,
    model: str,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: Path = "auto",
) -> list[Outcome]:
    """Train every setting with every seed; the outcomes are in settings-major order."""
    return run(
        federation, algorithm=algorithm, model=model, settings=settings, seeds=seeds, budget=budget,
        model_options=model_options, algorithm_options=algorithm_options, path=path,
    ).outcomes  # fmt: skip


def resolve(algorithm: str, optimizer: str, hyperparameters: Mapping[str, float]) -> dict[str, float]:
    """All per-run numbers of a run: those given and the defaults of the others, by name in alphabetical order.

    Raises :class:`SpecError` for a name that neither the algorithm nor the optimiser knows, with the nearest one.
    """
    kind: type[Algorithm] = registry.load("algorithms", algorithm)
    if optimizer not in kind.optimizers:
        raise SpecError(f"{algorithm} is defined for optimizer {' or '.join(kind.optimizers)}, not {optimizer!r}")
    known = {**DEFAULTS[optimizer], **kind.hyperparameters()}
    allowed = [*known, *(name for name in OPTIONAL[optimizer] if name not in kind.excluded)]
    for name, value in hyperparameters.items():
        if name not in allowed:
            raise SpecError(f"{algorithm} with {optimizer} has no hyper-parameter {name!r}: {nearest(name, allowed)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SpecError(f"hyper-parameter {name} = {value!r}: expected a finite number")
    return {name: float(value) for name, value in sorted({**known, **hyperparameters}.items())}


def build_model(
    name: str, federation: Federation, options: Mapping[str, Any] | None = None, client: int = 0
) -> nn.Module:
    """The registered network ``name`` for a client's inputs and the federation's task."""
    make = registry.load("models", name)
    known = list(inspect.signature(make).parameters)[2:]
    for option in options or {}:
        if option not in known:
            raise SpecError(f"model {name} has no option {option!r}: {nearest(option, known)}")
    own = federation.clients[client]
    return make(tuple(_first(federation, own).shape[1:]), task.outputs(federation, own), **(options or {}))


def _first(federation: Federation, client: Client) -> Tensor:
    """The client's first inputs (2, ...), as the model sees them."""
    x = client.train.x[:2]
    return x if federation.prepare is None else federation.prepare(x)


def run(
    federation: Federation,
    *,
    algorithm: str,
    model: str | nn.Module,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: Path = "auto",
    snapshots: Folder | None = None,
) -> Run:
    """As :func:`train`, keeping the trained models. ``model`` may be a module, whose weights begin every run.

    With a folder for ``snapshots`` the state is kept there after every round; the same call goes on from it after it
    was cut, and removes it at the end.
    """
    _check_seeds(seeds)
    resolved = [resolve(algorithm, budget.optimizer, setting) for setting in settings]
    if not resolved:
        raise SpecError("empty grid: give every hyper-parameter at least one value")
    for name in federation.metrics:
        metrics.metric(name)
    kind: type[Algorithm] = registry.load("algorithms", algorithm)
    population = _population(federation, kind(**(algorithm_options or {})), algorithm, model, model_options,
                             resolved, seeds, budget)  # fmt: skip
    chosen = choose(population, path)
    made: list[tuple[Rounds, Trained]] = []
    outcomes: list[Outcome] = []
    for part in _parts(population, chosen):
        rounds = Rounds(part, mapper_of(part, chosen))
        snapshot = None if snapshots is None else _snapshot(snapshots, part, chosen)
        trained = rounds.run(snapshot)
        made.append((rounds, trained))
        outcomes.extend(_outcomes(rounds, trained))
        if snapshot is not None:
            snapshot.forget()
    return Run(outcomes, made)


def _snapshot(folder: Folder, part: Population, path: str) -> Snapshot:
    """Where the state of a part of a population is kept, named by everything that decides it."""
    digest = hashlib.sha256(part.initial(part.seeds[0], 0).numpy().tobytes())
    algorithm = {"name": part.algorithm.registered_name, "options": dataclasses.asdict(part.algorithm)}
    content = {"data": part.federation.fingerprint, "algorithm": algorithm, "initial": digest.hexdigest(),
               "budget": dataclasses.asdict(part.budget), "settings": list(part.settings), "seeds": list(part.seeds),
               "path": path}  # fmt: skip
    identity = content_hash(content)
    return Snapshot(folder / f"{identity}.safetensors", identity)


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise SpecError("no seeds: give at least one")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise SpecError(f"seed {seed!r}: expected a whole number")
    if len(set(seeds)) < len(seeds):
        raise SpecError("a seed stands more than once; runs with equal seeds are equal, not repetitions")


def _population(
    federation: Federation,
    algorithm: Algorithm,
    name: str,
    model: str | nn.Module,
    model_options: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
) -> Population:
    """Models and initial weights for every training client, checked against the data."""
    model = fitting(name, model) if isinstance(model, str) else model
    clients = range(1 if algorithm.pooled else len(federation.clients))

    def module(client: int) -> nn.Module:
        made = model if isinstance(model, nn.Module) else build_model(model, federation, model_options, client)
        return algorithm.prepare(made)

    models: dict[Any, Model] = {}
    seen = [(own, _first(federation, own)) for own in federation.clients[: len(clients)]]
    shapes = [(x.shape[1:], task.outputs(federation, own)) for own, x in seen]
    for client, (shape, (own, x)) in enumerate(zip(shapes, seen, strict=True)):
        if shape not in models:
            with torch_seed(0):
                models[shape] = Model(module(client))
            task.check_output(models[shape], federation, own, x)
    first = models[shapes[0]]
    kind = task.output_kind(first, seen[0][1])
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
        own = (client,) if algorithm.apart else ()
        if (seed, shape, own) not in drawn:
            with torch_seed(derive("initial weights", seed, *own)):
                drawn[seed, shape, own] = Model(module(client)).initial
        return drawn[seed, shape, own]

    population = Population(
        federation, algorithm, [models[shape] for shape in shapes], initial, task.criterion(federation, kind),
        kind, budget, settings, seeds,
    )  # fmt: skip
    if algorithm.validates and not any(len(held_out) for _, held_out in population.splits.values()):
        raise SpecError(f"{name} needs validation samples: set validation above 0")
    if len({exchange.size for exchange in population.exchanges}) > 1:
        raise SpecError(f"{name}: what travels of the model differs in size between clients of {federation.name}")
    federated = not algorithm.pooled and not algorithm.everywhere
    if federated and population.exchanges[0].size == 0:
        raise SpecError(f"{name} shares no weight of this model: it has no part that travels; choose another model")
    return population


def fitting(algorithm: str, model: str) -> str:
    """The model's name, or that of its family's parallel form where the algorithm needs one."""
    parallel: bool = registry.load("algorithms", algorithm).parallel
    return f"parallel_{model}" if parallel and not model.startswith("parallel_") else model


def _parts(population: Population, path: Literal["stack", "loop"]) -> list[Population]:
    """The population cut along its settings so that no stack holds more than STACKED_WEIGHTS weights."""
    setting = population.models[0].size * len(population.seeds) * len(population.models)
    together = max(1, STACKED_WEIGHTS // setting) if path == "stack" else len(population.settings)
    return [
        dataclasses.replace(population, settings=population.settings[first : first + together])
        for first in range(0, len(population.settings), together)
    ]


# Outcomes -------------------------------------------------------------------------------------------------------


def _outcomes(rounds: Rounds, trained: Trained) -> list[Outcome]:
    population = rounds.population
    tested = {rule: _scores(rounds, personal) for rule, personal in trained.checkpoints.items()}
    validation, aggregated = trained.validation, rounds.aggregated(trained.validation)
    travelled = {way: total / len(trained.losses) for way, total in trained.travelled.items()}
    made = []
    for h, s in rounds.mapper.indices("HS"):
        diverged = trained.diverged.get((h, s))
        scores = tuple(
            (rule, model, client, name, None if diverged else values[h][s])
            for rule, by_pair in tested.items()
            for (model, client, name), values in by_pair.items()
        )
        made.append(
            Outcome(
                hyperparameters=population.settings[h],
                seed=population.seeds[s],
                status="diverged" if diverged else "finished",
                diverged=diverged,
                scores=scores,
                validation=tuple(_numbers(losses) for losses in validation[:, h, s]),
                aggregated=_numbers(aggregated[:, h, s]),
                communication={way: _count(floats[h, s].item()) for way, floats in travelled.items()},
                parameters=population.algorithm.parameters(population.models[0]),
                path=rounds.mapper.path,
            )
        )
    return made


def _fitting_models(population: Population, client: int) -> list[int]:
    """The clients whose models take the client's inputs and know its classes."""
    if population.algorithm.pooled:
        return [0]
    return [other for other, model in enumerate(population.models) if model is population.models[client]]


def _count(value: float) -> float:
    return int(value) if value.is_integer() else value


def _numbers(values: Tensor) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values.tolist())


def _scores(rounds: Rounds, personal: Any) -> dict[tuple[int, int, str], list[list[float | None]]]:
    """Metrics by (model, client, metric) of all runs, [h][s]; this is where test samples are used."""
    population = rounds.population
    tests = {c: client.test for c, client in enumerate(population.federation.clients) if client.test is not None}
    segments = population.federation.task == "segmentation"
    found: dict[tuple[int, int, str], list[list[float | None]]] = {}

    def score(model: int, client: int, output: Tensor) -> None:
        flat = task.probabilities(population.federation, population.output, output.flatten(0, 2))
        p = flat.reshape(output.shape).numpy()
        y = tests[client].y.numpy() if segments else tests[client].y.reshape(-1).to(torch.int64).numpy()
        for name in population.federation.metrics:
            measure = metrics.metric(name)
            found[model, client, name] = [
                [measure(each, y) if np.isfinite(each).all() else None for each in row] for row in p
            ]

    if population.algorithm.pooled or population.algorithm.everywhere:
        for client, test in tests.items():
            outputs = rounds.outputs(personal, dict.fromkeys(_fitting_models(population, client), test.x))
            for model, output in outputs.items():
                score(model, client, output)
    elif tests:
        for client, output in rounds.outputs(personal, {c: test.x for c, test in tests.items()}).items():
            score(client, client, output)
    return found
