"""FedProx (Li et al., 2020): client i minimises F_i(w) + mu/2 * ||w - w^t||^2, then FedAvg.

w^t are the weights the round began with; the sum runs over parameters, not running statistics, and validation
leaves the pull out.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "mu": 1.0}, {"lr": 0.005, "mu": 0.1}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            start = floats(client)
            client.train()
            for x, y in site.batches[t]:
                distance = sum(((w - start[name]) ** 2).sum() for name, w in client.named_parameters())
                step(local, loss(client(x), y) + hyper["mu"] / 2 * distance)

        server = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
