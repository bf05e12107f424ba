"""FedAvg's local models (FedAvg-local of APPLE's table 1)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bench.algorithms.base import Site, Tree
from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("fedavg_local")
@dataclass(frozen=True)
class FedAvgLocal(FedAvg):
    """FedAvg in which every client is evaluated with its own weights, as they are just before averaging.

    Travels: d up, d down.
    """

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "trained": w}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return super().end({**client, "trained": client["w"]}, received, site)

    def personal(self, client: Tree) -> Tree:
        return {"w": client["trained"]}
