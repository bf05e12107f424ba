"""FedAdagrad (Reddi et al., 2021), elementwise, without momentum, no running statistics in batch-norm:

Delta = sum_i n_i / n * (w_i - x);  v <- v + Delta^2;  x <- x + server_lr * Delta / (sqrt(v) + 1e-3), from v = 1e-6.
"""

from __future__ import annotations

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean
from .fedadam import without_tracking

SETTINGS = [{"lr": 0.02, "server_lr": 0.1}, {"lr": 0.005, "server_lr": 0.01}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    model = without_tracking(model)
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    server = floats(model)
    m = {name: torch.zeros_like(value) for name, value in server.items()}
    v = {name: torch.full_like(value, 1e-3**2) for name, value in server.items()}
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        moves = [{name: value - server[name] for name, value in floats(client).items()} for client in clients]
        delta = weighted_mean(moves, [site.samples for site in sites])
        for name, change in delta.items():
            square = change * change
            m[name] = change
            v[name] = v[name] + square
            server[name] = server[name] + hyper["server_lr"] * m[name] / (v[name].sqrt() + 1e-3)
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, dict(server))
    trace.final = {"m": m, "v": v}
    return trace
