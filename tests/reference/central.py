"""Central: one model on the pooled training samples of all clients, given here as a single site."""

from __future__ import annotations

from torch import nn

from . import local
from .common import Loss, OptimizerName, Site, Trace


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    [pooled] = sites
    return local.run([pooled], model, rounds=rounds, optimizer=optimizer, hyper=hyper, loss=loss)
