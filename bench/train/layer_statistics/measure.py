"""A look into the models of a run's last round, layer by layer: PLayer-FL's Figures 1 to 4 and A.1 to A.10.

Every client's model is that which the study evaluates, after the first round of a study of one round (``evaluate``
"trained": before aggregation). Losses are of a mini-batch that it was trained on, augmented and with dropout, as in the
paper's code; representations are compared on training samples of all clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench.algorithms.player_fl import trained_weights
from bench.models.functional import Model
from bench.train.layer_statistics import statistics
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.state import Trained
from bench.types import SpecError

VECTORS = 10  # of Hutchinson's estimate
SAMPLES = 32  # that representations are compared on, of all clients together

Trace = list[list[list[float]]]  # of the last round only: a number for each client and layer


def measure(rounds: Rounds, trained: Trained, h: int, s: int, *, similarity: bool) -> dict[str, Trace]:
    """Sensitivity, gradient variance and Hessian trace by layer, with ``similarity`` also how far clients are apart.

    Sensitivity is that of all layers so far; the trace is divided by the layer's trained weights, as in equation A.2.
    How far a client is from the others in the mean is the angle that the code calls CKA, see
    :func:`bench.train.layer_statistics.statistics.angular_procrustes`.
    """
    run_batch, clients = rounds.run_batch, range(rounds.run_batch.sizes["C"])
    weights = [rounds.mapper.at(trained.checkpoints["latest"], (h, s, client))["w"] for client in clients]
    found: dict[str, list[Tensor]] = {"federation_sensitivity": [], "gradient_variance": [], "hessian_trace": []}
    for client, w in zip(clients, weights, strict=True):
        model, loss = run_batch.models[client], _loss(run_batch, s, client)
        found["federation_sensitivity"].append(statistics.federation_sensitivity(model, loss, w))
        found["gradient_variance"].append(statistics.gradient_variance(model, loss, w))
        trace = statistics.hessian_trace(model, loss, w, probes=VECTORS, key=run_batch.seeds[s])
        found["hessian_trace"].append(trace.value / trained_weights(model).clamp(min=1))
    if similarity:
        found["dissimilarity"] = list(_distances(run_batch, s, weights))
    return {name: [[each.tolist() for each in by_client]] for name, by_client in found.items()}


def _loss(run_batch: RunBatch, s: int, client: int) -> statistics.Loss:
    """The training loss of the first mini-batch of the client's last round."""
    work = run_batch.work(s, client, run_batch.budget.rounds - 1)
    stored, y = run_batch.samples[s, client][work.batches[0]]
    x, key = run_batch.model_inputs(stored[None], work.keys[:1])[0], work.keys[0]
    return partial(_batch_loss, run_batch.models[client], run_batch.criterion, x, y, key)


def _batch_loss(
    model: Model, criterion: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, key: Tensor, w: Tensor
) -> Tensor:
    return criterion(model(w, x, key).output, y).mean()


def _distances(run_batch: RunBatch, s: int, weights: list[Tensor]) -> Tensor:
    """How far each client's layers are from those of the others, in the mean (C, L)."""
    models, clients = run_batch.models, len(weights)
    if clients < 2 or any(model is not models[0] for model in models):
        raise SpecError("representations are compared between several clients with the same model")
    few = [run_batch.splits[s, client][0][: max(1, SAMPLES // clients)] for client in range(clients)]
    stored = torch.cat([run_batch.samples[s, client][rows][0] for client, rows in enumerate(few)])
    between = statistics.similarities(models[0], weights, run_batch.model_inputs(stored), statistics.angular_procrustes)
    others = ~torch.eye(clients, dtype=torch.bool)
    return torch.where(others, between, 0).sum(2).T / (clients - 1)
