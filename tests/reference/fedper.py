"""FedPer (Arivazhagan et al., 2019): base and head are trained jointly, only ``base.*`` is averaged as in FedAvg.

(b_i, h_i) <- local steps on F_i from (b^t, h_i);  b^{t+1} = sum_i n_i / n * b_i.
"""

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
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        bases = [floats(client, "base.") for client in clients]
        server = weighted_mean(bases, [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
