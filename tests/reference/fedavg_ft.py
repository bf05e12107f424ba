"""FedAvg-FT: after aggregation a copy of each client, optimiser state included, trains on and is evaluated.

``hyper["mu"]`` adds FedProx's mu/2 ||w - w^t||^2 to the federated local steps, not to those of the tuning.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02}, {"lr": 0.005}]
TUNING = 1


def tuned(
    site: Site, t: int, client: nn.Module, on_w: torch.optim.Optimizer, name: OptimizerName, hyper: dict, loss: Loss
) -> nn.Module:
    """A copy of ``client`` after its tuning steps of round ``t``."""
    twin = copy.deepcopy(client)
    on_twin = make_optimizer(name, twin, hyper)
    on_twin.load_state_dict(copy.deepcopy(on_w.state_dict()))
    twin.train()
    for x, y in site.tuning[t]:
        step(on_twin, loss(twin(x), y))
    return twin


def run(
    sites: list[Site],
    model: nn.Module,
    *,
    rounds: int,
    optimizer: OptimizerName,
    hyper: dict[str, float],
    loss: Loss,
    every_round: bool = True,
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    mu = hyper.get("mu", 0.0)
    trace = Trace()
    for t in range(rounds):
        for site, client, on_w in zip(sites, clients, optimizers, strict=True):
            begun = [weight.detach().clone() for weight in client.parameters()]
            client.train()
            for x, y in site.batches[t]:
                pairs = zip(client.parameters(), begun, strict=True)
                proximal = sum(((weight - start) ** 2).sum() for weight, start in pairs)
                step(on_w, loss(client(x), y) + mu / 2 * proximal)
        server = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        for client in clients:
            load(client, server)
        evaluated = clients
        if every_round or t == rounds - 1:
            triples = zip(sites, clients, optimizers, strict=True)
            evaluated = [tuned(site, t, client, on_w, optimizer, hyper, loss) for site, client, on_w in triples]
        trace.record(sites, evaluated, loss, server)
    return trace
