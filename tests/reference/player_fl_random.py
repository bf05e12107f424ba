"""PLayer-FL-Random: PLayer-FL with a random p out of 1 .. L - 1, never PLayer-FL's own.

Client 0 draws a number for every p in the first round; the largest of those allowed wins.
"""

from __future__ import annotations

import torch
from torch import nn

from bench.rng import derive, uniform

from . import player_fl
from .common import Loss, OptimizerName, Site, Trace

SETTINGS = player_fl.SETTINGS
MODEL = "deep"


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    count = len(player_fl.layers(model))
    draws = uniform(torch.tensor(sites[0].keys[0] ^ derive("federated layers")), count).tolist()

    def cut(own: int) -> int:
        return max((p for p in range(1, count) if p != own), key=lambda p: draws[p - 1], default=own)

    return player_fl.run(sites, model, rounds=rounds, optimizer=optimizer, hyper=hyper, loss=loss, cut=cut)
