"""FedLP (Zhu et al., 2023): every client keeps each layer with probability p; for a layer l

w_l^{t+1} = sum_{i keeps l} n_i w_{i,l} / sum_{i keeps l} n_i, or w_l^t if nobody keeps it.
"""

from __future__ import annotations

import torch
from torch import nn

from bench.rng import derive, uniform

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "p": 0.3}, {"lr": 0.005, "p": 0.7}]
MODEL = "deep"


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    server = floats(model)
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in server))
    trace = Trace()
    for t in range(rounds):
        keepers: dict[str, list[int]] = {layer: [] for layer in layers}
        for number, (site, client, local) in enumerate(zip(sites, clients, optimizers, strict=True)):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))
            draws = uniform(torch.tensor(site.keys[t] ^ derive("kept layers")), len(layers)).tolist()
            for layer, draw in zip(layers, draws, strict=True):
                if draw < hyper["p"]:
                    keepers[layer].append(number)

        for layer, kept in keepers.items():
            if kept:
                average = weighted_mean(
                    [floats(clients[c], f"{layer}.") for c in kept], [sites[c].samples for c in kept]
                )
                server = server | average
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
