"""FedBABU (Oh et al., 2022): ``base.*`` is trained and averaged under the initial head, which nobody touches.

After the last round every client trains the whole model (or, with ``head_only``, the head) for some epochs with a new
optimiser.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]
TUNING = 5


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    head_only: bool = False,
) -> Trace:  # fmt: skip
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client.base, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))

        bases = [floats(client, "base.") for client in clients]
        server = weighted_mean(bases, [site.samples for site in sites])
        if t < rounds - 1:
            trace.record_trained(sites, clients, loss)
        for client in clients:
            load(client, server)
        if t == rounds - 1:
            for site, client in zip(sites, clients, strict=True):
                tuner = make_optimizer(optimizer, client.head if head_only else client, hyper)
                client.train()
                for x, y in site.tuning[t]:
                    step(tuner, loss(client(x), y))
            trace.record_trained(sites, clients, loss)
        trace.record(sites, clients, loss, server)
    return trace
