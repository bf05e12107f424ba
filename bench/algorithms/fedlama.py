"""FedLAMA (Lee, Zhang & Avestimehr, 2023): every layer has its own aggregation interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Site, Tree, mean
from bench.registry import Allowed, register


@register("fedlama")
@dataclass(frozen=True)
class FedLAMA(Algorithm):
    """Layers in which the clients differ little are averaged less often; in between, clients keep their own weights.

    Layer l is averaged if its interval tau_l divides the number of the round. Every ``factor`` * ``interval`` rounds,
    when all layers are averaged, d_l = sum_i (n_i / n) ||u_l - x_l^i||^2 / (tau_l dim_l) (equation 2; u is the
    average). In ascending order of d, delta_l and lambda_l are the shares of the first l layers in sum d dim (equation
    3) and in sum dim (equation 4). Layers before the crossing of delta_l and 1 - lambda_l get tau_l = factor *
    interval, the others interval. Intervals are in rounds; the paper's base interval is the number of local steps in a
    round. PLayer-FL compares with interval 2 and factor 2. Its numbers come from a server that sends its whole model in
    every round, with every layer as last averaged, so that local training in between is lost: ``stale``. factor = 1 is
    FedAvg every ``interval`` rounds. Batch-norm: d and dim count trained weights only.

    Paper: Lee, Zhang & Avestimehr, 2023, equations 2 to 4 (algorithm 1, lines 6 to 9; algorithm 2).
    Variant: 1 - lambda_l, as in the text, Figure 1 and the code; line 9 of algorithm 2 prints delta_l < lambda_l, which
    holds for all layers but the last.
    Communication cost: sum_l dim_l / tau_l up and down on average.
    """

    interval: Annotated[int, Allowed(ge=1)] = 1
    factor: Annotated[int, Allowed(ge=1)] = 2
    stale: bool = False

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "tau": torch.full((len(site.model.layers),), self.interval)}

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w[0], "spread": torch.zeros_like(w[0]), "rounds": torch.tensor(0), "due": torch.ones_like(w[0])}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return dict(server)

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        rounds, tau = received["rounds"], client["tau"]
        due = site.model.by_layer(torch.full_like(tau, self.stale, dtype=torch.bool) | (rounds % tau == 0))
        adjusts = (rounds > 0) & (rounds % (self.factor * self.interval) == 0)
        adjusted = self.intervals(received["spread"], tau, site)
        return {**client, "w": torch.where(due, received["w"], client["w"]), "tau": torch.where(adjusts, adjusted, tau)}

    def intervals(self, spread: Tensor, tau: Tensor, site: Site) -> Tensor:
        """Return the intervals (L,) that follow from sum_i (n_i / n) (u - x^i)^2 (d,) (algorithm 2)."""
        dims = site.model.layer_sums(site.trained(torch.ones_like(spread)))
        discrepancy = site.model.layer_sums(site.trained(spread)) / tau  # d_l dim_l
        order = torch.argsort(discrepancy / dims.clamp(min=1))
        delta, lam = (torch.cumsum(each[order], 0) / each.sum() for each in (discrepancy, dims))
        adjusted = torch.where(delta < 1 - lam, self.factor * self.interval, self.interval)
        return adjusted[torch.argsort(order)]

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        due = site.model.by_layer((received["rounds"] + 1) % client["tau"] == 0)
        return client, {"w": client["w"], "due": due.to(torch.float32)}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        average = mean(uploads["w"], weights)
        spread = mean((uploads["w"] - average) ** 2, weights)
        # Only layers that are due are exchanged; the other averages serve the discrepancies once all layers are due.
        due = uploads["due"][0]
        w = torch.where(due > 0, average, server["w"]) if self.stale else average
        return {"w": w, "spread": spread, "rounds": server["rounds"] + 1, "due": due}

    def floats(self, message: Tree, site: Site) -> Tensor:
        return message["due"].sum()
