"""pFedMe (Dinh et al., 2020). Every mini-batch: from theta = w_i, K times theta <- theta - lr (g(theta) + lam (theta -
w_i)), then w_i <- w_i - eta lam (w_i - theta). Server: w <- (1 - beta) w + beta mean(w_i), uniform; theta is tested.

``simplified``, PLayer-FL's: theta is never reset and takes theta <- theta - lr (g(theta) + lam (theta - w)) once a
mini-batch; the server's w is the mean of the thetas weighted by samples.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .common import Loss, OptimizerName, Site, Trace, copies, floats, load, weighted_mean

SETTINGS = [{"lr": 0.02, "lam": 15.0, "eta": 0.03, "beta": 1.0}, {"lr": 0.01, "lam": 1.0, "eta": 0.5, "beta": 2.0}]


def descend(theta: nn.Module, centre: dict[str, Tensor], x: Tensor, y: Tensor, lr: float, lam: float, loss: Loss):
    """A gradient step on the loss with its pull towards the centre."""
    gradients = torch.autograd.grad(loss(theta(x), y), list(theta.parameters()))
    with torch.no_grad():
        for (name, weight), gradient in zip(theta.named_parameters(), gradients, strict=True):
            weight -= lr * (gradient + lam * (weight - centre[name]))


def run(
    sites: list[Site], model: nn.Module, *, rounds: int, optimizer: OptimizerName, hyper: dict[str, float], loss: Loss,
    inner_steps: int = 5, simplified: bool = False,
) -> Trace:  # fmt: skip
    lr, lam = hyper["lr"], hyper["lam"]
    thetas = copies(model, sites)
    server = floats(model)
    trace = Trace()
    for t in range(rounds):
        uploads = []
        for site, theta in zip(sites, thetas, strict=True):
            theta.train()
            w = server
            for x, y in site.batches[t]:
                if simplified:
                    descend(theta, w, x, y, lr, lam, loss)
                    continue
                load(theta, w)
                for _ in range(inner_steps):
                    descend(theta, w, x, y, lr, lam, loss)
                w = {name: w[name] - hyper["eta"] * lam * (w[name] - near) for name, near in floats(theta).items()}
            uploads.append(floats(theta) if simplified else w)

        if simplified:
            server = weighted_mean(uploads, [site.samples for site in sites])
        else:
            mean, beta = weighted_mean(uploads, [1] * len(sites)), hyper["beta"]
            server = {name: (1 - beta) * server[name] + beta * mean[name] for name in server}
        trace.record(sites, thetas, loss, server)
    return trace
