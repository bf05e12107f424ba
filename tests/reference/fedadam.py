"""FedAdam (Reddi et al., 2021; FENDA-FL, Algorithm 1), elementwise and without bias correction:

Delta = sum_i n_i / n * (w_i - x);  m <- b1 m + (1 - b1) Delta;  v <- b2 v + (1 - b2) Delta^2;
x <- x + server_lr * m / (sqrt(v) + tau), with m = v = 0 at the start.

Batch-norm tracks no running statistics (appendix H): momentum could make a running variance negative.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "server_lr": 0.1}, {"lr": 0.005, "server_lr": 0.01}]


def without_tracking(model: nn.Module) -> nn.Module:
    """A copy whose batch-norm layers normalise by the current batch, in training and in evaluation."""
    model = copy.deepcopy(model)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    return model


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    beta1, beta2, tau = hyper.get("beta1", 0.9), hyper.get("beta2", 0.99), hyper.get("tau", 1e-9)
    model = without_tracking(model)
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    server = floats(model)
    m = {name: torch.zeros_like(value) for name, value in server.items()}
    v = {name: torch.zeros_like(value) for name, value in server.items()}
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        moves = [{name: value - server[name] for name, value in floats(client).items()} for client in clients]
        delta = weighted_mean(moves, [site.samples for site in sites])
        m = {name: beta1 * m[name] + (1 - beta1) * delta[name] for name in server}
        v = {name: beta2 * v[name] + (1 - beta2) * delta[name] ** 2 for name in server}
        server = {name: server[name] + hyper["server_lr"] * m[name] / (v[name].sqrt() + tau) for name in server}
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    trace.final = {"m": m, "v": v}
    return trace
