"""PerFCL (Zhang et al., 2022): FENDA's model and exchange with loss + mu * L1 + gamma * L2.

L1 = con(z_g; aggregated z_g, own old z_g) and L2 = con(z_l; own old z_l, aggregated z_g), with con and T as in MOON.
z_g, z_l: flattened features of the global and the local extractor. "Aggregated" is the global extractor the round
began with, "own old" the client's extractors at the end of its previous local training; no L1, L2 in the first round.
"""

from __future__ import annotations

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean
from .moon import contrast, frozen

SETTINGS = [{"lr": 0.005, "mu": 1.0, "gamma": 5.0}, {"lr": 0.002, "mu": 5.0, "gamma": 1.0}]
MODEL = "parallel"


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    mu, gamma, temperature = hyper["mu"], hyper["gamma"], hyper.get("temperature", 0.5)
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    previous = [frozen(client) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for i, (site, client, local) in enumerate(zip(sites, clients, optimizers, strict=True)):
            received = frozen(client)
            client.train()
            for x, y in site.batches[t]:
                z_l, z_g = client.local_extractor(x), client.global_extractor(x)
                value = loss(client.head(torch.cat([z_l, z_g], dim=1)), y)
                if t > 0:
                    aggregated = received.global_extractor(x)
                    l1 = contrast(z_g, aggregated, previous[i].global_extractor(x), temperature)
                    l2 = contrast(z_l, previous[i].local_extractor(x), aggregated, temperature)
                    value = value + mu * l1 + gamma * l2
                step(local, value)
            previous[i] = frozen(client)

        extractors = [floats(client, "global_extractor.") for client in clients]
        server = weighted_mean(extractors, [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
