"""Ditto (Li et al., 2021): FedAvg on w and, on the same mini-batches, v_i <- v_i - lr * (g_i(v_i) + lam (v_i - w^t)).

w^t is the server's model at the start of the round, v_i (tested) stays with its client. With ``average_personal`` the
server averages the v_i instead of the w_i: the mistake of PLayer-FL's code.
"""

from __future__ import annotations

from torch import nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, make_optimizer, step, weighted_mean

SETTINGS = [{"lr": 0.02, "lam": 1.0}, {"lr": 0.005, "lam": 0.1}]


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    average_personal: bool = False,
) -> Trace:  # fmt: skip
    clients, personal = copies(model, sites), copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    personal_optimizers = [make_optimizer(optimizer, client, hyper) for client in personal]
    server = floats(model)
    trace = Trace()
    for t in range(rounds):
        for site, w, v, on_w, on_v in zip(sites, clients, personal, optimizers, personal_optimizers, strict=True):
            w.train()
            v.train()
            for x, y in site.batches[t]:
                step(on_w, loss(w(x), y))
                on_v.zero_grad()
                loss(v(x), y).backward()
                for name, weight in v.named_parameters():
                    weight.grad += hyper["lam"] * (weight.detach() - server[name])
                on_v.step()

        averaged = personal if average_personal else clients
        server = weighted_mean([floats(client) for client in averaged], [site.samples for site in sites])
        for client in clients:
            load(client, server)
        trace.record(sites, personal, loss, server)
    return trace
