"""Per-FedAvg (Fallah et al., 2020): w <- w - lr (I - alpha H) g(u; D') with u = w - alpha g(w; D), uniform averaging.

First-order: H is left out, D and D' are every second sample of the mini-batch. Hessian-free: H g' by central
differences (0.001) on D'', and the three are every third sample. A part without samples is the whole mini-batch.
Tested, after every round, is the global model after one step of alpha on the first mini-batch of a new epoch.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, weighted_mean

SETTINGS = [{"lr": 0.02, "alpha": 0.01}, {"lr": 0.005, "alpha": 0.5}]
TUNING = 1
DELTA = 1e-3


def gradient_at(model: nn.Module, shift: float, along: list[Tensor], x: Tensor, y: Tensor, loss: Loss) -> list[Tensor]:
    """The gradient at the model's weights plus ``shift`` times ``along``."""
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for weight, direction in zip(moved.parameters(), along, strict=True):
            weight += shift * direction
    return list(torch.autograd.grad(loss(moved(x), y), list(moved.parameters())))


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    hessian_free: bool = False,
) -> Trace:  # fmt: skip
    alpha, parts = hyper["alpha"], 3 if hessian_free else 2
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    nothing = [torch.zeros_like(weight) for weight in model.parameters()]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                cut = [(x[k::parts], y[k::parts]) if k < len(x) else (x, y) for k in range(parts)]
                first = gradient_at(client, 0.0, nothing, *cut[0], loss)
                direction = gradient_at(client, -alpha, first, *cut[1], loss)
                if hessian_free:
                    ahead = gradient_at(client, DELTA, direction, *cut[2], loss)
                    behind = gradient_at(client, -DELTA, direction, *cut[2], loss)
                    curved = [(a - b) / (2 * DELTA) for a, b in zip(ahead, behind, strict=True)]
                    direction = [g - alpha * c for g, c in zip(direction, curved, strict=True)]
                for weight, gradient in zip(client.parameters(), direction, strict=True):
                    weight.grad = gradient
                local.step()

        server = weighted_mean([floats(client) for client in clients], [1] * len(sites))
        adapted = []
        for site, client in zip(sites, clients, strict=True):
            load(client, server)
            x, y = site.tuning[t][0]
            adapted.append(copy.deepcopy(client))
            slope = gradient_at(client, 0.0, nothing, x, y, loss)
            with torch.no_grad():
                for weight, change in zip(adapted[-1].parameters(), slope, strict=True):
                    weight -= alpha * change
        trace.record(sites, adapted, loss, server)
    return trace
