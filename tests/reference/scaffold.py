"""SCAFFOLD (Karimireddy et al., 2020), option II, full participation, no warm start:

y_i <- y_i - lr * (g_i(y_i) - c_i + c) for the K_i local steps client i really takes, from y_i = x;
c_i+ = c_i - c + (x - y_i) / (K_i * lr);  x <- x + server_lr * (mean(y_i) - x);  c <- c + mean(c_i+ - c_i).

Means over clients are uniform. Control variates (zero at the start) belong to trainable parameters; x is the whole
state, running statistics included. Clients take plain gradient steps, whatever ``optimizer`` says.
"""

from __future__ import annotations

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, weighted_mean

SETTINGS = [{"lr": 0.02, "server_lr": 1.0}, {"lr": 0.1, "server_lr": 0.3}]


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    lr, server_lr = hyper["lr"], hyper["server_lr"]
    clients = copies(model, sites)
    server = floats(model)
    c = {name: torch.zeros_like(weight) for name, weight in trainable(model).items()}
    variates: list[State] = [dict(c) for _ in sites]
    trace = Trace()
    for t in range(rounds):
        updated: list[State] = []
        for site, client, c_i in zip(sites, clients, variates, strict=True):
            weights = trainable(client)
            client.train()
            for x, y in site.batches[t]:
                gradients = torch.autograd.grad(loss(client(x), y), list(weights.values()))
                with torch.no_grad():
                    for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                        weight -= lr * (gradient - c_i[name] + c[name])
            k = len(site.batches[t])
            updated.append({n: c_i[n] - c[n] + (server[n] - w.detach()) / (k * lr) for n, w in weights.items()})

        mean = weighted_mean([floats(client) for client in clients], [1] * len(sites))
        server = {name: server[name] + server_lr * (mean[name] - server[name]) for name in server}
        moves = [{n: new[n] - old[n] for n in c} for new, old in zip(updated, variates, strict=True)]
        move = weighted_mean(moves, [1] * len(sites))
        c, variates = {name: c[name] + move[name] for name in c}, updated
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    trace.final = {"c": c, "variates": variates}
    return trace
