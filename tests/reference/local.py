"""Local: client i minimises its own loss F_i; nothing is communicated and there is no server model."""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, make_optimizer, step

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))
        trace.record(sites, clients, loss, server=None)
    return trace
