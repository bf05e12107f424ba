"""An estimate of the memory that a run batch needs, which a cluster is asked for before the training.

The estimate counts weights and the activations that a local step saves for the backward pass; the factors below were
measured. It is one to three times the memory in use: too much leaves a core idle, too little kills a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.settings import fitting
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import data_key
from bench.types import Client, Federation

if TYPE_CHECKING:
    from torch import Tensor, nn

BASE = 2**30  # bytes of a worker with all its libraries; measured: 0.9e9
FLOAT = 4  # bytes
PERMANENT_COPIES = 6  # of all weights, in clients, messages and checkpoints: APFL; FedAvg has 4
TEMPORARY_COPIES = 32  # of the weights trained at once, in a round: APFL with AdamW; FedAvg needs a third
BACKWARD = 3  # times the activations saved by a forward pass, during a local step
# A model counts as stacked if a local step saves fewer activations and uses fewer weights x samples than these limits.
# Among the models of docs/design-notes.md, stacked ones have at most 27,000 and 1.6e6; looped ones have at least
# 126,000 or 1e7. bench.train.path counts exactly, but needs a traced step.
STACKED_ACTIVATIONS, STACKED_PRODUCTS = 1e5, 3e6


def bytes_needed(run_batch: PlannedBatch, federation: Federation) -> int:
    """Return the bytes that a process needs to train the run batch on data of the size of ``federation``."""
    import torch

    from bench.train.batching import schedule
    from bench.train.driver import STACKED_WEIGHTS

    budget, clients = run_batch.runs[0].budget, federation.clients
    try:
        weights, activations = _network(run_batch, federation)
        largest = torch.tensor(max(len(client.train) for client in clients))
        batch = int(schedule.cut(budget, largest).size)
    except Exception:
        return BASE  # the worker will fail for the same reason and report it
    models = len(run_batch.runs) * len(clients)
    together, samples = 1, batch
    if batch * activations < STACKED_ACTIVATIONS and batch * weights < STACKED_PRODUCTS:
        together = max(1, min(models, STACKED_WEIGHTS // weights))
        samples = max(batch, *(_evaluated(client, budget.validation) for client in clients))
    temporary = together * (TEMPORARY_COPIES * weights + BACKWARD * samples * activations)
    numbers = PERMANENT_COPIES * weights * models + temporary
    datasets = len({data_key(run) for run in run_batch.first})
    return BASE + datasets * _size(federation) + FLOAT * numbers


def _network(run_batch: PlannedBatch, federation: Federation) -> tuple[int, int]:
    """Return the numbers of weights and of saved activations per sample of the first client's model."""
    from bench.models.functional import torch_seed
    from bench.train import build

    run, x = run_batch.runs[0], federation.clients[0].train.x[:1]
    name = fitting(run.algorithm["name"], run.model["name"])
    with torch_seed(0):
        module = build.build_model(name, federation, run.model["options"]).eval()
    seen = x if federation.prepare is None else federation.prepare(x)
    return sum(each.numel() for each in module.state_dict().values()), _activations(module, seen)


def _activations(module: nn.Module, x: Tensor) -> int:
    """Return how many numbers, weights excluded, a forward pass of ``x`` saves for the backward pass."""
    from torch.autograd.graph import saved_tensors_hooks

    own = {each.untyped_storage().data_ptr() for each in module.state_dict().values()}
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in own:
            saved[address] = max(tensor.numel(), saved.get(address, 0))
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        _output = module(x)  # keeps the saved tensors alive, so that no address is used twice
    return sum(saved.values())


def _evaluated(client: Client, validation: float) -> int:
    """Return how many samples of a client a stack evaluates at once."""
    import torch

    from bench.train.batching.schedule import held_out

    drawn = int(held_out(torch.tensor(len(client.train)), validation))
    validated = len(client.validation) if client.validation else drawn
    return max(validated, len(client.test) if client.test else 0)


def _size(federation: Federation) -> int:
    """Return the bytes of all samples."""
    splits = [split for client in federation.clients for split in (client.train, client.validation, client.test)]
    return sum(part.numel() * part.element_size() for split in splits if split for part in (split.x, split.y))
