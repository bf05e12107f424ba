"""LocalAdaptation as PLayer-FL runs it: FedAvg, and after the last round one more local epoch on the global model.

The epoch continues with the client's optimiser; only the models of the last round are adapted.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]
TUNING = 1


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

        server = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        if t < rounds - 1:
            trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        if t == rounds - 1:
            for site, client, local in zip(sites, clients, optimizers, strict=True):
                client.train()
                for x, y in site.tuning[t]:
                    step(local, loss(client(x), y))
            trace.record_trained(sites, clients, loss)
        trace.record(sites, clients, loss, server)
    return trace
