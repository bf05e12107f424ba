"""FedAMP (Huang et al., 2021, algorithm 1): the server mixes, u_i = sum_j xi_ij w_j, and client i trains on from its
own w_i on its loss + lam / (2 alpha_k) ||w - u_i||^2. In round k (from 0) alpha_k = alpha alpha_decay^floor(k / 2).

xi_ij = alpha_k exp(-||w_i - w_j||^2 / sigma) / sigma, xi_ii = 1 - the sum of the others. In the first round u_i = w_i.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from .common import Loss, OptimizerName, Site, Trace, copies, make_optimizer, step

OPTIONS = {"interval": 2}
SETTINGS = [
    {"lr": 0.02, "lam": 1.0, "alpha": 0.5, "alpha_decay": 0.5, "sigma": 2.0},
    {"lr": 0.005, "lam": 0.3, "alpha": 0.2, "alpha_decay": 0.1, "sigma": 1.0},
]


def attention(vectors: list[Tensor], alpha: float, hyper: dict[str, float]) -> list[list[float]]:
    rows = []
    for i, w_i in enumerate(vectors):
        row = [alpha * exp(-float((w_i - w_j).square().sum()) / hyper["sigma"]) / hyper["sigma"] for w_j in vectors]
        row[i] = 1 - (sum(row) - row[i])
        rows.append(row)
    return rows


def run(
    sites: list[Site],
    model: nn.Module,
    *,
    rounds: int,
    optimizer: OptimizerName,
    hyper: dict[str, float],
    loss: Loss,
    weigh: Callable[[list[Tensor], float, dict[str, float]], list[list[float]]] = attention,
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    clouds = [parameters_to_vector(client.parameters()).detach() for client in clients]
    trace = Trace()
    for t in range(rounds):
        alpha = hyper["alpha"] * hyper["alpha_decay"] ** (t // OPTIONS["interval"])
        for site, client, on_w, u in zip(sites, clients, optimizers, clouds, strict=True):
            client.train()
            for x, y in site.batches[t]:
                distance = (parameters_to_vector(client.parameters()) - u).square().sum()
                step(on_w, loss(client(x), y) + hyper["lam"] / (2 * alpha) * distance)
        vectors = [parameters_to_vector(client.parameters()).detach() for client in clients]
        following = hyper["alpha"] * hyper["alpha_decay"] ** ((t + 1) // OPTIONS["interval"])
        shares = weigh(vectors, following, hyper)
        clouds = [torch.stack([xi * w for xi, w in zip(row, vectors, strict=True)]).sum(0) for row in shares]
        trace.record(sites, clients, loss, None)
    trace.final = {"clouds": clouds}
    return trace
