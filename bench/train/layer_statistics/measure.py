"""Layer statistics of the personal models of a run's last round.

The models are those that the run evaluates (before aggregation with ``Budget.evaluate`` "trained"). Losses are those of
the first mini-batch of the client's last round, augmented and with dropout. Representations are compared on training
samples of all clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench.algorithms.layers import trained_weights
from bench.models.functional import Model
from bench.train.layer_statistics import statistics
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.state import Trained
from bench.types import SpecError

PROBES = 10  # random vectors of Hutchinson's estimate
SAMPLES = 32  # inputs on which representations are compared, of all clients together

Trace = list[list[list[float]]]  # of the last round only: a number for each client and layer


def measure(rounds: Rounds, trained: Trained, h: int, s: int, *, similarity: bool) -> dict[str, Trace]:
    """Return statistics of every client's layers, for setting ``h`` and seed number ``s``.

    They are the sensitivity of all layers so far, the gradient variance, and the Hessian trace divided by the layer's
    trained weights. With ``similarity`` also the mean distance of a client's representations to those of the other
    clients (:func:`bench.train.layer_statistics.statistics.angular_procrustes`).
    """
    run_batch, clients = rounds.run_batch, range(rounds.run_batch.sizes["C"])
    weights = [rounds.mapper.at(trained.checkpoints["latest"], (h, s, client))["w"] for client in clients]
    found: dict[str, list[Tensor]] = {"federation_sensitivity": [], "gradient_variance": [], "hessian_trace": []}
    for client, w in zip(clients, weights, strict=True):
        model, loss = run_batch.models[client], _loss(run_batch, s, client)
        found["federation_sensitivity"].append(statistics.sensitivity(model, loss, w))
        found["gradient_variance"].append(statistics.gradient_variance(model, loss, w))
        trace = statistics.hessian_trace(model, loss, w, probes=PROBES, key=run_batch.seeds[s])
        found["hessian_trace"].append(trace.value / trained_weights(model).clamp(min=1))
    if similarity:
        found["dissimilarity"] = list(_distances(run_batch, s, weights))
    return {name: [[each.tolist() for each in by_client]] for name, by_client in found.items()}


def _loss(run_batch: RunBatch, s: int, client: int) -> statistics.Loss:
    """Return the training loss of the first mini-batch of the client's last round."""
    work = run_batch.work(run_batch.budget.rounds - 1).of([s], torch.tensor([client]))
    stored, y = run_batch.data.samples[s, client][work.batches()[0]]
    key = work.keys[0, 0, 0]
    x = run_batch.model_inputs(stored, key)
    return partial(_batch_loss, run_batch.models[client], run_batch.criterion, x, y, key)


def _batch_loss(
    model: Model, criterion: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, key: Tensor, w: Tensor
) -> Tensor:
    return criterion(model(w, x, key).output, y).mean()


def _distances(run_batch: RunBatch, s: int, weights: list[Tensor]) -> Tensor:
    """Return the mean distance of each client's layers to those of the other clients, (C, L)."""
    models, clients = run_batch.models, len(weights)
    if clients < 2 or any(model is not models[0] for model in models):
        raise SpecError("layer statistics: representations need at least two clients with the same model")
    few = [run_batch.data.splits[0][s, client][: max(1, SAMPLES // clients)] for client in range(clients)]
    stored = torch.cat([run_batch.data.samples[s, client][rows][0] for client, rows in enumerate(few)])
    inputs = run_batch.model_inputs(stored)
    between = statistics.similarities(models[0], weights, inputs, statistics.angular_procrustes)
    others = ~torch.eye(clients, dtype=torch.bool)
    return torch.where(others, between, 0).sum(2).T / (clients - 1)
