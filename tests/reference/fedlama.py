"""FedLAMA (Lee, Zhang & Avestimehr, 2023): layer l is averaged in rounds that its interval divides.

After every factor * interval rounds, with u the averages: d_l = sum_i n_i/n ||u_l - x_l^i||^2 / (tau_l dim_l). Layers
in the order of growing d get factor * interval for as long as their share of sum d dim is below 1 - their share of
sum dim, the rest get interval.
"""

from __future__ import annotations

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]
MODEL = "deep"
OPTIONS = {"interval": 1, "factor": 2}


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    interval, factor = OPTIONS["interval"], OPTIONS["factor"]
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    names = list(dict.fromkeys(name.rpartition(".")[0] for name in floats(model)))
    tau = dict.fromkeys(names, interval)
    shares = [site.samples / sum(site.samples for site in sites) for site in sites]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        trace.record_trained(sites, clients, loss)
        d, dims = {}, {}
        for layer in names:
            if (t + 1) % tau[layer]:
                continue
            states = [floats(client, f"{layer}.") for client in clients]
            u = weighted_mean(states, shares)
            trained = [n for n in u if n in dict(model.named_parameters())]
            distances = [sum(float(torch.sum((u[n] - state[n]) ** 2)) for n in trained) for state in states]
            dims[layer] = sum(u[n].numel() for n in trained)
            d[layer] = sum(q * x for q, x in zip(shares, distances, strict=True)) / (tau[layer] * dims[layer])
            for client in clients:
                load(client, u)
        if (t + 1) % (factor * interval) == 0:
            delta = size = 0.0
            total, everything = sum(d[n] * dims[n] for n in names), sum(dims.values())
            for layer in sorted(names, key=d.__getitem__):
                delta, size = delta + d[layer] * dims[layer] / total, size + dims[layer] / everything
                tau[layer] = factor * interval if delta < 1 - size else interval
        trace.record(sites, clients, loss, None)
    trace.final = {"tau": tau}
    return trace
