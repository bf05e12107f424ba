"""PLayer-FL (Elhussein & Gürsoy, 2025): after round one F_l = sum_{k<=l} 1/n_k sum_p (w_p g_p)^2, summed over clients.

g is the gradient of the last local step, at the weights the step began with. The first p layers are averaged as in
FedAvg, p the smallest with F_{p+1} > threshold F_p or else all; the other layers stay. A layer is a module's weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, make_optimizer, weighted_mean

# On the toy federations, by case and seed, each of these federates one, two or all three layers.
SETTINGS = [{"lr": 0.02, "threshold": 6.9}, {"lr": 0.005, "threshold": 5.8}]
MODEL = "deep"


def layers(model: nn.Module) -> list[str]:
    return list(dict.fromkeys(name.rpartition(".")[0] for name, _ in model.named_parameters()))


def sensitivity(model: nn.Module) -> list[float]:
    """The model's F_l by the gradients it holds."""
    total, found = 0.0, []
    for layer in layers(model):
        products = [p.detach() * p.grad for n, p in model.named_parameters() if n.rpartition(".")[0] == layer]
        squares = torch.cat([product.flatten() for product in products]) ** 2
        total += float(squares.mean())
        found.append(total)
    return found


def transition(total: list[float], threshold: float) -> int:
    for p in range(1, len(total)):
        if total[p] > threshold * total[p - 1]:
            return p
    return len(total)


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    cut: Callable[[int], int] = lambda p: p,
) -> Trace:  # fmt: skip
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        sensitivities = []
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            client.train()
            for x, y in site.batches[t]:
                local.zero_grad()
                loss(client(x), y).backward()
                last = sensitivity(client)
                local.step()
            sensitivities.append(last)
        if t == 0:
            p = cut(transition([sum(column) for column in zip(*sensitivities, strict=True)], hyper["threshold"]))
            federated = layers(model)[:p]

        trace.watched.setdefault("sensitivity", []).append(sensitivities)
        trace.record_trained(sites, clients, loss)
        server: State = weighted_mean([floats(client) for client in clients], [site.samples for site in sites])
        for client in clients:
            load(client, {name: value for name, value in server.items() if name.rpartition(".")[0] in federated})
        trace.record(sites, clients, loss, server)
    trace.final = {"p": p}
    return trace
