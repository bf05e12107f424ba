"""FedFomo (Zhang et al., 2021). At the start of a round client i compares what it downloaded and its own model with
v, the weights its last local training began with, on its validation samples:

s_n = (L(v) - L(w_n)) / ||w_n - v||;  w = v + the sum of max(s_n, 0) (w_n - v) over the sum of max(s_n, 0).

With a budget it downloads one after another the client with the largest sum of s_n so far, or with probability
epsilon - epsilon_decay t any that is left. Evaluated is the model after local training.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from bench.rng import derive, uniform

from .common import Loss, OptimizerName, Site, Trace, copies, make_optimizer, step, validate

SETTINGS = [
    {"lr": 0.02, "epsilon": 0.6, "epsilon_decay": 0.1},
    {"lr": 0.005, "epsilon": 0.3, "epsilon_decay": 0.05},
]


def vector(model: nn.Module) -> Tensor:
    return parameters_to_vector(model.parameters()).detach().clone()


def downloads(
    i: int, t: int, site: Site, affinity: list[float], budget: int | None, hyper: dict[str, float]
) -> list[int]:
    """The other clients whose models client ``i`` downloads in round ``t``."""
    others = [j for j in range(len(affinity)) if j != i]
    if budget is None or budget >= len(others):
        return others
    draw = uniform(torch.tensor(site.keys[t] ^ derive("order")), len(affinity)).tolist()
    coins = uniform(torch.tensor(site.keys[t] ^ derive("explore")), budget).tolist()
    chosen: list[int] = []
    for coin in coins:
        left = sorted((j for j in others if j not in chosen), key=lambda j: draw[j])
        explores = coin < hyper["epsilon"] - hyper["epsilon_decay"] * t
        chosen.append(left[0] if explores else max(left, key=lambda j: affinity[j]))
    return chosen


def run(
    sites: list[Site],
    model: nn.Module,
    *,
    rounds: int,
    optimizer: OptimizerName,
    hyper: dict[str, float],
    loss: Loss,
    budget: int | None = None,
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    began = [vector(client) for client in clients]
    affinities = [[0.0] * len(sites) for _ in sites]
    trial = copy.deepcopy(model)

    def loss_of(w: Tensor, site: Site) -> float:
        vector_to_parameters(w, trial.parameters())
        return validate(trial, site.val, loss)

    trace = Trace()
    for t in range(rounds):
        uploaded = [vector(client) for client in clients]
        for i, (site, client, on_w, affinity) in enumerate(zip(sites, clients, optimizers, affinities, strict=True)):
            v = began[i]
            worth = {}
            for n in [i, *downloads(i, t, site, affinity, budget, hyper)]:
                distance = float((uploaded[n] - v).norm())
                gain = loss_of(v, site) - loss_of(uploaded[n], site)
                worth[n] = gain / distance if distance > 0 else 0.0
                affinity[n] += worth[n]
            total = sum(max(s, 0.0) for s in worth.values())
            for n, s in worth.items():
                if s > 0:
                    v = v + s / total * (uploaded[n] - began[i])
            began[i] = v
            vector_to_parameters(v.clone(), client.parameters())
            client.train()
            for x, y in site.batches[t]:
                step(on_w, loss(client(x), y))
        trace.record(sites, clients, loss, None)
    trace.final = {"affinity": affinities}
    return trace
