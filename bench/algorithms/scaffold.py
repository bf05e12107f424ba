"""SCAFFOLD (Karimireddy et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Site, Tree, searchable, uniform_mean
from bench.registry import register


@register("scaffold")
@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Control variates correct the drift of local steps; means are uniform over clients.

    Local step: y = y - lr (g_i(y) + c - c_i), plain SGD (equation 3). After K steps from x:
    c_i+ = c_i - c + (x - y_i) / (K lr) (equation 4). Server: x = x + server_lr mean_i(y_i - x) and
    c = c + mean_i(c_i+ - c_i) (equation 5). All variates start at 0 and cover the trained weights only. Momentum is
    excluded because K lr would be the wrong denominator.

    Paper: Karimireddy et al., 2020, equations 3 to 5 (algorithm 1, lines 10, 12 and 17).
    Variant: option II of equation 4; all clients take part in every round.
    Communication cost: 2d up, 2d down.
    """

    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    excluded: ClassVar[tuple[str, ...]] = ("momentum",)
    server_lr: Any = searchable(1.0, gt=0, log=(1e-5, 1.0))

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "c": torch.zeros_like(w)}

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w[0], "c": torch.zeros_like(w[0])}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return {"w": server["w"], "c": server["c"]}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        gradient, w = site.gradient(lambda w: self.loss(w, batch, client, received, site), client["w"])
        corrected = gradient + received["c"] - client["c"]
        w, state = site.optimizer.step(w, corrected, client["optimizer"])
        return {**client, "w": w, "optimizer": state}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        drift = site.trained(received["w"] - client["w"]) / (site.steps * site.optimizer.lr)
        c = client["c"] - received["c"] + drift
        return {**client, "c": c}, {"w": client["w"], "dc": c - client["c"]}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        step = uniform_mean(uploads["w"]) - server["w"]
        return {"w": server["w"] + self.server_lr * step, "c": server["c"] + uniform_mean(uploads["dc"])}
