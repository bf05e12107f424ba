"""Per-FedAvg (Fallah et al., 2020): w <- w - lr (I - alpha H) g(u; D') with u = w - alpha g(w; D), uniform averaging.

First-order: H is left out, D and D' are every second sample of the mini-batch. Hessian-free: H g' by central
differences (0.001) on D'', and the three are every third sample. A part without samples is the whole mini-batch, and
with batch-norm, which needs two samples, so are all parts of a mini-batch that is too small.
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
    normalised = any(isinstance(part, nn.BatchNorm1d) for part in model.modules())
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                whole = normalised and len(x) < 2 * parts
                cut = [(x, y) if whole or k >= len(x) else (x[k::parts], y[k::parts]) for k in range(parts)]
                # The pass at the client's own weights moves its running statistics.
                first = list(torch.autograd.grad(loss(client(cut[0][0]), cut[0][1]), list(client.parameters())))
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
            slope = torch.autograd.grad(loss(adapted[-1](x), y), list(adapted[-1].parameters()))
            with torch.no_grad():
                for weight, change in zip(adapted[-1].parameters(), slope, strict=True):
                    weight -= alpha * change
        trace.record(sites, adapted, loss, server)
    return trace
