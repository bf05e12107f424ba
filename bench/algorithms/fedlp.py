"""FedLP (Zhu et al., 2023): layer-wise pruning of uploads, homogeneous form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Site, Tree, mean, searchable
from bench.registry import register
from bench.rng import derive, uniform


@register("fedlp")
@dataclass(frozen=True)
class FedLP(Algorithm):
    """FedAvg in which every client uploads each layer only with probability p.

    Layer l of the new global model is the mean of w_i,l over the clients that keep l in this round, weights n_i
    renormalised; a layer nobody keeps stays as it was. Draws are independent over layers, clients and rounds; PLayer-FL
    compares with p = 0.7. The authors' code averages evenly and draws for every tensor. p = 1 is FedAvg.
    Travels: p d up on average, d down.
    """

    p: Any = searchable(0.7, log=(0.1, 1.0))

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        kept = uniform(site.key ^ derive("kept layers"), len(site.model.layers)) < self.p
        return client, {"w": client["w"], "kept": site.model.by_layer(kept).to(torch.float32)}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        total = mean(uploads["kept"], weights)
        kept = mean(uploads["kept"] * uploads["w"], weights) / torch.where(total > 0, total, 1.0)
        return {"w": torch.where(total > 0, kept, server["w"])}

    def floats(self, message: Tree, site: Site) -> Any:
        return message["kept"].sum() if "kept" in message else super().floats(message, site)
