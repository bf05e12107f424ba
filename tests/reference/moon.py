"""MOON (Li et al., 2021): loss + mu * con(z; z_glob, z_prev), then FedAvg on everything.

con(z; p, n) = -log(e^{cos(z,p)/T} / (e^{cos(z,p)/T} + e^{cos(z,n)/T})), averaged over the mini-batch. z is the
flattened output of ``model.base``, z_glob that of the aggregated model the round began with, z_prev that of the
client's own model at the end of its previous local training; the term is absent in the first round (where z_prev
could only be z_glob, whose two pulls cancel).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "mu": 1.0}, {"lr": 0.005, "mu": 5.0}]


def contrast(anchor: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """Two-way cross entropy on cosines over ``temperature``; all features are (n, ...)."""
    anchor, positive, negative = (features.flatten(1) for features in (anchor, positive, negative))
    cosines = [cosine_similarity(anchor, positive), cosine_similarity(anchor, negative)]
    return cross_entropy(torch.stack(cosines, dim=1) / temperature, torch.zeros(len(anchor), dtype=torch.long))


def frozen(model: nn.Module) -> nn.Module:
    """A copy in evaluation mode that takes no gradients."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    mu, temperature = hyper["mu"], hyper.get("temperature", 0.5)
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    previous = [frozen(client) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for i, (site, client, local) in enumerate(zip(sites, clients, optimizers, strict=True)):
            received = frozen(client)
            client.train()
            for x, y in site.batches[t]:
                z = client.base(x)
                value = loss(client.head(z), y)
                if t > 0:
                    value = value + mu * contrast(z, received.base(x), previous[i].base(x), temperature)
                step(local, value)
            previous[i] = frozen(client)

        server = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
