"""FedRep (Collins et al., 2021): in every round first some steps on ``head.*`` alone, then the others on ``base.*``.

Each turn has a new optimiser of its own weights; the base gets a share of 1 / (10 + 1) of the steps, rounded up. Only
``base.*`` is averaged, as in FedAvg.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    head_epochs: int = 10, base_epochs: int = 1,
) -> Trace:  # fmt: skip
    clients = copies(model, sites)
    trace = Trace()
    for t in range(rounds):
        for site, client in zip(sites, clients, strict=True):
            client.train()
            turn = len(site.batches[t]) * head_epochs // (head_epochs + base_epochs)
            for part, batches in ((client.head, site.batches[t][:turn]), (client.base, site.batches[t][turn:])):
                local = make_optimizer(optimizer, part, hyper)
                for x, y in batches:
                    client.zero_grad()
                    step(local, loss(client(x), y))

        bases = [floats(client, "base.") for client in clients]
        server = weighted_mean(bases, [site.samples for site in sites])
        trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        trace.record(sites, clients, loss, server)
    return trace
