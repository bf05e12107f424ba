"""FedLP (Zhu et al., 2023): layer-wise pruning of uploads."""

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

    w_l = sum_i k_il n_i w_i,l / sum_i k_il n_i, where k_il is 1 if client i keeps layer l in this round, else 0. A
    layer that no client keeps does not change. Draws are independent over layers, clients and rounds. PLayer-FL
    compares with p = 0.7. p = 1 is FedAvg.

    Paper: Zhu et al., 2023; Elhussein & Gürsoy, 2025 (PLayer-FL), section 7.1.
    Variant: the homogeneous form, weighted by samples; the authors' code weights clients equally and draws per tensor.
    Communication cost: p d up on average, d down.
    """

    p: Any = searchable(0.7, ge=0, le=1, log=(0.1, 1.0))

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        kept = uniform(site.key ^ derive("kept layers"), len(site.model.layers)) < self.p
        return client, {"w": client["w"], "kept": site.model.by_layer(kept).to(torch.float32)}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        total = mean(uploads["kept"], weights)
        kept = mean(uploads["kept"] * uploads["w"], weights) / torch.where(total > 0, total, 1.0)
        return {"w": torch.where(total > 0, kept, server["w"])}

    def floats(self, message: Tree, site: Site) -> Any:
        return message["kept"].sum() if "kept" in message else super().floats(message, site)
