"""Models and initial weights of a run batch, checked against the data before training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bench import registry
from bench.algorithms.base import Algorithm
from bench.models.functional import Model, torch_seed
from bench.rng import derive
from bench.settings import fitting
from bench.train.batching.client_data import ClientData
from bench.train.checks import check_batch_sizes
from bench.train.run_batch import RunBatch
from bench.train.task import losses, outputs
from bench.types import Budget, Client, Federation, SilobenchError, SpecError


def build_model(
    name: str, federation: Federation, options: Mapping[str, Any] | None = None, client: int = 0
) -> nn.Module:
    """Return the registered network ``name`` for a client's inputs and the federation's task.

    Raises :class:`SpecError` for unknown options and for inputs that the network cannot have.
    """
    registry.check_options("models", name, options or {})
    make = registry.load("models", name)
    own = federation.clients[client]
    shape = tuple(_first(federation, own).shape[1:])
    try:
        module: nn.Module = make(shape, outputs.output_size(federation, own), **(options or {}))
    except SilobenchError as error:
        raise SpecError(f"{federation.name}: {error}") from error
    except Exception as error:  # a factory may raise anything
        raise SpecError(outputs.mismatch(name, federation, shape, error)) from error
    if federation.embeddings is not None:
        begin_from = getattr(module, "begin_from", None)
        if begin_from is None:
            raise SpecError(f"model {name} looks up no tokens: leave out the option embeddings of {federation.name}")
        begin_from(federation.embeddings)
    return module


def _first(federation: Federation, client: Client) -> Tensor:
    """Return the client's first model inputs, (2, ...) or (1, ...)."""
    x = client.train.x[:2]
    return x if federation.prepare is None else federation.prepare(x)


def build_run_batch(
    federations: Sequence[Federation],
    algorithm: Algorithm,
    name: str,
    model: str | nn.Module,
    model_options: Mapping[str, Any] | None,
    settings: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    budget: Budget,
) -> RunBatch:
    """Return the run batch with the models and initial weights of all training clients.

    ``name`` is the algorithm's. Raises :class:`SpecError` for a model that does not fit the data, the task or the
    algorithm.
    """
    federation = federations[0]
    model = fitting(name, model) if isinstance(model, str) else model
    model_name = model if isinstance(model, str) else type(model).__name__
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
            outputs.check_output(models[shape], model_name, federation, own, x)
            for other in {id(each): each for each in federations if each is not federation}.values():
                outputs.check_vocabulary(models[shape], other, x)
    first = models[shapes[0]]
    kind = outputs.output_kind(first, seen[0][1])
    for each in models.values():
        algorithm.check_model(each)
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

    data = ClientData(federations, algorithm.pooled, seeds, budget.validation)
    run_batch = RunBatch(
        data, algorithm, [models[shape] for shape in shapes], initial, generator,
        losses.criterion(federation, kind), kind, budget, settings, seeds,
    )  # fmt: skip
    _check_run_batch(run_batch, name)
    check_batch_sizes(run_batch, [x for _, x in seen])
    return run_batch


def _check_run_batch(run_batch: RunBatch, name: str) -> None:
    """Raise :class:`SpecError` where the algorithm cannot train these models on these samples."""
    algorithm, exchanges, federation = run_batch.algorithm, run_batch.exchanges, run_batch.federation
    _, validation = run_batch.data.counts  # also refuses a client whose samples would all be held out
    if algorithm.validates and not bool(validation.any()):
        raise SpecError(f"{name} needs validation samples: set validation above 0")
    if len({exchange.size for exchange in exchanges}) > 1:
        raise SpecError(f"{name}: the shared part of the model differs in size between clients of {federation.name}")
    federated = not algorithm.pooled and not algorithm.cross_evaluate
    if federated and exchanges[0].size == 0:
        raise SpecError(f"{name} shares no weight of this model; choose a model that has a shared part")
