"""pFedLA (Ma et al., 2022): client i trains from theta_i^l = sum_j alpha_i^{l,j} theta_j^l, alpha_i = HN_i(v_i; psi_i).

theta_j are the models as last trained. With Delta = theta_i after - before local training, the hypernetwork takes a
gradient step of hn_lr up <theta_i(v_i, psi_i), Delta>. The personal model is the mixture by the new hypernetwork.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bench.rng import derive, uniform

from .common import Loss, OptimizerName, Site, State, Trace, copies, floats, load, make_optimizer, step

SETTINGS = [{"lr": 0.02, "hn_lr": 5.0}, {"lr": 0.005, "hn_lr": 0.01}]
MODEL = "deep"
OPTIONS = {"embedding": 4, "hidden": 6}


class HyperNetwork(nn.Module):
    """For every layer Linear(e, h), ReLU, Linear(h, clients), softmax; all of them read the same embedding."""

    def __init__(self, layers: list[str], clients: int, key: int) -> None:
        super().__init__()
        e, h, count = OPTIONS["embedding"], OPTIONS["hidden"], len(layers)

        def draw(name: str, bound: float, *shape: int) -> Tensor:
            drawn = uniform(torch.tensor(key ^ derive("hypernetwork", name)), math.prod(shape))
            return bound * (2 * drawn.view(shape) - 1)

        self.layers = layers
        self.v = nn.Parameter(draw("v", math.sqrt(3), e))
        self.first = nn.ModuleList(nn.Linear(e, h) for _ in layers)
        self.second = nn.ModuleList(nn.Linear(h, clients) for _ in layers)
        drawn = [draw("W1", e**-0.5, count, h, e), draw("b1", e**-0.5, count, h)]
        drawn += [draw("W2", h**-0.5, count, clients, h), draw("b2", h**-0.5, count, clients)]
        with torch.no_grad():
            for first, second, W1, b1, W2, b2 in zip(self.first, self.second, *drawn, strict=True):
                for weight, value in ((first.weight, W1), (first.bias, b1), (second.weight, W2), (second.bias, b2)):
                    weight.copy_(value)

    def forward(self, models: list[State]) -> State:
        """The mixture of the clients' models."""
        pairs = zip(self.first, self.second, strict=True)
        alphas = [torch.softmax(second(torch.relu(first(self.v))), 0) for first, second in pairs]
        alpha = dict(zip(self.layers, alphas, strict=True))
        return {
            name: sum(
                (a * state[name] for a, state in zip(alpha[name.rpartition(".")[0]], models, strict=True)),
                torch.tensor(0.0),
            )
            for name in models[0]
        }


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss
) -> Trace:
    clients = copies(model, sites)
    optimizers = [make_optimizer(optimizer, client, hyper) for client in clients]
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in floats(model)))
    networks = [HyperNetwork(layers, len(sites), site.keys[0]) for site in sites]
    models = [floats(model) for _ in sites]
    trace = Trace()
    for t in range(rounds):
        trained = []
        for site, client, local, network in zip(sites, clients, optimizers, networks, strict=True):
            mixture = network(models)
            load(client, {name: value.detach() for name, value in mixture.items()})
            client.train()
            for x, y in site.batches[t]:
                step(local, loss(client(x), y))
            trained.append(floats(client))
            moved = {name: trained[-1][name] - value.detach() for name, value in mixture.items()}
            names = dict(model.named_parameters())
            ascent = sum((torch.sum(moved[name] * mixture[name]) for name in names), torch.tensor(0.0))
            gradients = torch.autograd.grad(ascent, list(network.parameters()))
            with torch.no_grad():
                for weight, gradient in zip(network.parameters(), gradients, strict=True):
                    weight += hyper["hn_lr"] * gradient

        models = trained
        trace.record_trained(sites, clients, loss)
        for client, network in zip(clients, networks, strict=True):
            load(client, {name: value.detach() for name, value in network(models).items()})
        trace.record(sites, clients, loss, None)
    return trace
