"""How much memory a run batch takes, by counting: what a cluster is asked for before anything is trained.

Weights, and what a local step keeps for its way back, are counted; how many of each are there at once was measured. The
answer is one to three times of what is used: too much leaves a core without work, too little ends a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.settings import fitting
from bench.sweep.plan import PlannedBatch
from bench.sweep.training import data_key
from bench.types import Client, Federation

if TYPE_CHECKING:
    from torch import Tensor, nn

BASE = 2**30  # bytes of a worker with all its libraries; 0.9e9 were measured
FLOAT = 4  # bytes
LASTING = 6  # times all weights, in clients, messages and checkpoints: APFL's, FedAvg has 4
PASSING = 32  # times the weights that are trained at once: a round of APFL with AdamW, FedAvg needs a third
BACKWARD = 3  # times what a forward pass keeps, until a local step is over
# Models are taken for stacked that in a local step keep fewer numbers, and multiply their weights fewer times. Of those
# in docs/design-notes.md stacked ones come to 27,000 and 1.6e6 at most, looped ones to 126,000 or 1e7 at least. To
# count as bench.train.path does, a step would have to be traced.
STACKED_KEEP, STACKED_MULTIPLY = 1e5, 3e6


def needed(run_batch: PlannedBatch, federation: Federation) -> int:
    """Bytes for a process that trains the run batch on data like those of ``federation``."""
    from bench.train.batching import schedule
    from bench.train.driver import STACKED_WEIGHTS

    budget, clients = run_batch.runs[0].budget, federation.clients
    try:
        weights, kept = _network(run_batch, federation)
        batch = schedule.batch_size(budget, max(len(client.train) for client in clients))
    except Exception:
        return BASE  # the worker meets the same, and says what it is
    models = len(run_batch.runs) * len(clients)
    together, samples = 1, batch
    if batch * kept < STACKED_KEEP and batch * weights < STACKED_MULTIPLY:
        together = max(1, min(models, STACKED_WEIGHTS // weights))
        samples = max(batch, *(_evaluated(client, budget.validation) for client in clients))
    numbers = LASTING * weights * models + together * (PASSING * weights + BACKWARD * samples * kept)
    datasets = len({data_key(run) for run in run_batch.first})
    return BASE + datasets * _size(federation) + FLOAT * numbers


def _network(run_batch: PlannedBatch, federation: Federation) -> tuple[int, int]:
    """How many weights the first client's model has, and how many numbers its forward pass keeps of each sample."""
    from bench.models.functional import torch_seed
    from bench.train import build

    run, x = run_batch.runs[0], federation.clients[0].train.x[:1]
    name = fitting(run.algorithm["name"], run.model["name"])
    with torch_seed(0):
        module = build.build_model(name, federation, run.model["options"]).eval()
    seen = x if federation.prepare is None else federation.prepare(x)
    return sum(each.numel() for each in module.state_dict().values()), _kept(module, seen)


def _kept(module: nn.Module, x: Tensor) -> int:
    """How many numbers besides its weights a forward pass of ``x`` keeps for the way back."""
    from torch.autograd.graph import saved_tensors_hooks

    own = {each.untyped_storage().data_ptr() for each in module.state_dict().values()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            kept[place] = max(tensor.numel(), kept.get(place, 0))
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        _output = module(x)  # holds what is kept, so that no place is used twice
    return sum(kept.values())


def _evaluated(client: Client, validation: float) -> int:
    """How many samples of a client a stack evaluates at once."""
    from bench.train.batching.schedule import held_out

    validated = len(client.validation) if client.validation else held_out(len(client.train), validation)
    return max(validated, len(client.test) if client.test else 0)


def _size(federation: Federation) -> int:
    """Bytes of all samples."""
    splits = [split for client in federation.clients for split in (client.train, client.validation, client.test)]
    return sum(part.numel() * part.element_size() for split in splits if split for part in (split.x, split.y))
