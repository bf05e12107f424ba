"""FedProx (Li et al., 2020): FedAvg with a proximal term in the local loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, searchable, squared_distance
from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("fedprox")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose local loss is regularised towards the weights at the start of the round.

    Every local step is on F_i(w) + mu/2 ||w - w^t||^2 (line 7). mu = 0 is FedAvg.

    Paper: Li et al., 2020, algorithm 2, line 7.
    Variant: every client does the same amount of local work, and the mean is FedAvg's.
    Communication cost: d up, d down.
    """

    mu: Any = searchable(0.1, ge=0, log=(1e-3, 1.0))

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        loss, updated = super().loss(w, batch, client, received, site)
        return loss + self.mu / 2 * squared_distance(site.share(w), received["w"]), updated
