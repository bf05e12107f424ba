"""Plain PyTorch loops over rounds, clients and local steps, as one would write them without silobench.

`make bench` compares with these loops. They keep a client's samples in one tensor, take mini-batches by row numbers,
and only train and validate: no test, no checkpoint, no record. Every function takes the initial model of all clients
and returns validation losses [round][client]: means over batches of the batches' mean losses, after the clients have
received the aggregate.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Site:
    """One client's samples, and the row numbers of all mini-batches, by round for local steps, and for validation."""

    x: Tensor
    y: Tensor
    rounds: Sequence[Sequence[Tensor]]
    validation: Sequence[Tensor]
    samples: int  # number of training samples


def fedavg(
    sites: Sequence[Site], model: nn.Module, loss: Loss, optimizer: Callable[..., torch.optim.Optimizer], lr: float
) -> list[list[float]]:
    """FedAvg: the mean of the clients' weights, weighted by samples. Optimisers are kept over rounds."""
    clients = [copy.deepcopy(model) for _ in sites]
    optimizers = [optimizer(client.parameters(), lr=lr) for client in clients]
    shares = [site.samples / sum(site.samples for site in sites) for site in sites]
    losses = []
    for round_ in range(len(sites[0].rounds)):
        for site, client, local in zip(sites, clients, optimizers, strict=True):
            for rows in site.rounds[round_]:
                local.zero_grad()
                loss(client(site.x[rows]), site.y[rows]).backward()
                local.step()
        with torch.no_grad():
            for weights in zip(*(client.parameters() for client in clients), strict=True):
                mean = sum(share * weight for share, weight in zip(shares, weights, strict=True))
                for weight in weights:
                    weight.copy_(mean)
        losses.append([validate(client, site, loss) for client, site in zip(clients, sites, strict=True)])
    return losses


def scaffold(sites: Sequence[Site], model: nn.Module, loss: Loss, lr: float, server_lr: float) -> list[list[float]]:
    """SCAFFOLD, option II (Karimireddy et al., 2020, algorithm 1), uniform over clients."""
    clients = [copy.deepcopy(model) for _ in sites]
    server = [weight.detach().clone() for weight in model.parameters()]
    c = [torch.zeros_like(weight) for weight in server]
    variates = [[torch.zeros_like(weight) for weight in server] for _ in sites]
    losses = []
    for round_ in range(len(sites[0].rounds)):
        moved = []
        for i, (site, client) in enumerate(zip(sites, clients, strict=True)):
            weights = list(client.parameters())
            corrections = [mine - common for mine, common in zip(variates[i], c, strict=True)]
            for rows in site.rounds[round_]:
                gradients = torch.autograd.grad(loss(client(site.x[rows]), site.y[rows]), weights)
                with torch.no_grad():
                    for weight, gradient, correction in zip(weights, gradients, corrections, strict=True):
                        weight.sub_(gradient - correction, alpha=lr)
            scale = 1 / (len(site.rounds[round_]) * lr)
            news = [
                correction + scale * (x - weight.detach())
                for correction, x, weight in zip(corrections, server, weights, strict=True)
            ]
            moved.append([new - old for new, old in zip(news, variates[i], strict=True)])
            variates[i] = news
        with torch.no_grad():
            for x, *weights in zip(server, *(client.parameters() for client in clients), strict=True):
                x += server_lr * (torch.stack(tuple(weights)).mean(0) - x)
                for weight in weights:
                    weight.copy_(x)
        c = [common + torch.stack(moves).mean(0) for common, *moves in zip(c, *moved, strict=True)]
        losses.append([validate(client, site, loss) for client, site in zip(clients, sites, strict=True)])
    return losses


@torch.no_grad()
def validate(model: nn.Module, site: Site, loss: Loss) -> float:
    """Return the mean over validation batches of their mean loss; a short last batch has the same weight."""
    return sum(loss(model(site.x[rows]), site.y[rows]).item() for rows in site.validation) / len(site.validation)
