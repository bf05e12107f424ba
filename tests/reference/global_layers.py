"""Global Layers (Obeidi, 2023): some layers are averaged with equal weights, everything else stays with its client.

w_k <- local steps on F_k;  omega = 1/K sum_k omega_k;  omega_k <- (1 - rate) omega_k + rate omega, also for the last
aggregate before evaluation. There is no broadcast before the first local steps.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "rate": 1.0}, {"lr": 0.005, "rate": 0.4}]
OPTIONS = {"layers": ["head"]}  # a list, as a spec file gives it


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients, rate = copies(model, sites), hyper["rate"]
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        trace.record_trained(sites, clients, loss)
        parts = [floats(client, "head.") for client in clients]
        server = weighted_mean(parts, [1] * len(sites))
        for client, own in zip(clients, parts, strict=True):
            load(client, {name: (1 - rate) * own[name] + rate * server[name] for name in server})
        trace.record(sites, clients, loss, server)
    return trace
