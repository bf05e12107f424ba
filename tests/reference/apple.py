"""APPLE (Luo & Wu, 2022). Client i's model has the weights sum_j p_ij c_j; a local step moves its own core c_i and all
p_ij down the gradient of loss + lambda(t) mu/2 ||p_i - p0||^2, p0_j = n_j / n, with learning rates lr and p_lr.

The other cores are those of the previous round or, with a budget of M downloads, partly older ones. lambda falls from
1 to 0 over ``fade`` rounds. Here all cores begin equal. Evaluated before the other cores are exchanged.
"""

from __future__ import annotations

from math import cos, log, pi
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bench.rng import derive, uniform

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, step

SETTINGS = [
    {"lr": 0.02, "p_lr": 0.01, "mu": 0.5, "fade": 2.0, "momentum": 0.9, "lr_decay": 0.8},
    {"lr": 0.01, "p_lr": 0.002, "mu": 0.0, "fade": 1.0, "momentum": 0.5, "lr_decay": 1.0},
]


def falling(t: int, fade: float, scheduler: str) -> float:
    if t >= fade:
        return 0.0
    return (1 + cos(pi * t / fade)) / 2 if scheduler == "cosine" else 0.001 ** (t / fade)


def downloads(i: int, t: int, site: Site, p: Tensor, visited: set[int], budget: int | None, selection: str) -> set[int]:
    """The other clients whose cores client ``i`` downloads in round ``t``."""
    others = [j for j in range(len(p)) if j != i]
    if budget is None or budget >= len(others) or t == 0:
        return set(others)
    draw = uniform(torch.tensor(site.keys[t] ^ derive("download")), len(p)).tolist()
    if selection == "uniform":
        return set(sorted(others, key=lambda j: draw[j])[:budget])
    new = sorted((j for j in others if j not in visited), key=lambda j: draw[j])[:budget]
    b = max(1.5, t * budget / len(p))
    # An exponential variable of rate b^|p_j| is the smallest with the probability that the paper gives to j.
    known = sorted((j for j in others if j in visited), key=lambda j: -log(draw[j]) / b ** abs(float(p[j])))
    chosen = {*new, *known[: budget - len(new)]}
    visited |= chosen
    return chosen


def run(
    sites: list[Site],
    model: nn.Module,
    *,
    rounds: int,
    optimizer: OptimizerName,
    hyper: dict[str, float],
    loss: Loss,
    scheduler: str = "cosine",
    budget: int | None = None,
    selection: str = "paper",
) -> Trace:
    assert optimizer == "sgd"
    samples = torch.tensor([float(site.samples) for site in sites])
    p0 = samples / samples.sum()
    cores, personal = copies(model, sites), copies(model, sites)
    vectors = [nn.Parameter(p0.clone()) for _ in sites]
    optimizers = [
        torch.optim.SGD([{"params": list(core.parameters())}, {"params": [p]}], lr=1.0, momentum=hyper["momentum"])
        for core, p in zip(cores, vectors, strict=True)
    ]
    known: list[dict[int, State]] = [{} for _ in sites]
    visited: list[set[int]] = [set() for _ in sites]
    trace = Trace()

    def mixture(i: int) -> dict[str, Tensor]:
        parts: list[dict[str, Any]] = [known[i].get(j, {}) for j in range(len(sites))]
        parts[i] = dict(cores[i].named_parameters())
        return {name: sum(p * part[name] for p, part in zip(vectors[i], parts, strict=True)) for name in parts[i]}

    for t in range(rounds):
        uploaded = [floats(core) for core in cores]
        for i, site in enumerate(sites):
            for j in downloads(i, t, site, vectors[i].detach(), visited[i], budget, selection):
                known[i][j] = uploaded[j]
            for group, name in zip(optimizers[i].param_groups, ("lr", "p_lr"), strict=True):
                group["lr"] = hyper[name] * hyper["lr_decay"] ** t
            for x, y in site.batches[t]:
                pull = falling(t, hyper["fade"], scheduler) * hyper["mu"] / 2 * (vectors[i] - p0).square().sum()
                step(optimizers[i], loss(functional_call(cores[i], mixture(i), (x,)), y) + pull)
            load(personal[i], {name: weight.detach() for name, weight in mixture(i).items()})
        trace.watched.setdefault("p", []).append([p.tolist() for p in vectors])
        pairs = zip(personal, vectors, strict=True)
        trace.record(sites, personal, loss, None, [{"w": floats(net), "p": p.detach().clone()} for net, p in pairs])
    trace.final = {"cores": [floats(core) for core in cores], "p": [p.detach() for p in vectors]}
    return trace
