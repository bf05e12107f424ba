"""APFL (Deng et al., 2020) as FENDA-FL's code runs it: a local net v and a global net w, mixed at their outputs.

Every local step: (1) w takes a step on its own loss; (2) v takes a step on the loss of the mix
alpha v(x) + (1 - alpha) w(x), w already updated. After the first local step of a round
alpha <- clip(alpha - alpha_lr * (<v - w, alpha g_v + (1 - alpha) g_w> + 0.02 alpha), 0, 1), with v and w after their
steps and g the gradients of the mix's loss at (2), which carry the factors alpha and 1 - alpha a first time already.
Only w is averaged (FedAvg); the personal model is the mix.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .common import Loss, OptimizerName, Site, Trace, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "alpha_lr": 1.0}, {"lr": 0.005, "alpha_lr": 10.0}]


class Mix(nn.Module):
    """The personal model: twins with the same initial weights."""

    def __init__(self, model: nn.Module, alpha: float) -> None:
        super().__init__()
        self.local_net, self.global_net = copy.deepcopy(model), copy.deepcopy(model)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return self.alpha * self.local_net(x) + (1 - self.alpha) * self.global_net(x)

    def alpha_gradient(self) -> float:
        total = 0.02 * self.alpha
        for v, w in zip(self.local_net.parameters(), self.global_net.parameters(), strict=True):
            if v.requires_grad:
                mixed = self.alpha * v.grad + (1 - self.alpha) * w.grad
                total += float(torch.sum((v - w).detach() * mixed))
        return total

    def parts(self) -> dict[str, Any]:
        return {"v": floats(self.local_net), "w": floats(self.global_net), "alpha": self.alpha}


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = [Mix(model, hyper.get("alpha0", 0.5)) for _ in sites]
    global_optimizers = [make_optimizer(optimizer, client.global_net, hyper) for client in clients]
    local_optimizers = [make_optimizer(optimizer, client.local_net, hyper) for client in clients]
    trace = Trace()
    for t in range(rounds):
        for site, client, on_w, on_v in zip(sites, clients, global_optimizers, local_optimizers, strict=True):
            client.train()
            for k, (x, y) in enumerate(site.batches[t]):
                step(on_w, loss(client.global_net(x), y))
                on_w.zero_grad()
                step(on_v, loss(client(x), y))
                if k == 0:
                    client.alpha = min(max(client.alpha - hyper["alpha_lr"] * client.alpha_gradient(), 0.0), 1.0)

        trace.watched.setdefault("alpha", []).append([client.alpha for client in clients])
        trace.record_trained(sites, clients, loss, [client.parts() for client in clients])
        nets = [floats(client.global_net) for client in clients]
        server = weighted_mean(nets, [site.samples for site in sites])
        for client in clients:
            load(client.global_net, server)
        trace.record(sites, clients, loss, server, [client.parts() for client in clients])
    trace.final = {"alpha": [client.alpha for client in clients]}
    return trace
