"""FedAvg whose clients are evaluated before they load the aggregate, with the weights they have just trained."""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, on_w in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(on_w, loss(client(x), y))
        server = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        trace.record(sites, clients, loss, server)
        for client in clients:
            load(client, server)
    return trace
