"""Ditto (Li, Hu, Beirami & Smith, 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, searchable, squared_distance
from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("ditto")
@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg trains a global model, and every client a personal one that is regularised towards it.

    In every local step, w takes a step on F_i, as in FedAvg, and v_i a step on F_i(v) + lam/2 ||v - w^t||^2, on the
    same samples; w^t are the global weights at the start of the round. v_i stays with its client and is tested. lam = 0
    is local training. The paper chooses lam from {0.05, 0.1, 0.2, 0.5, 1, 2}. The numbers of PLayer-FL (lam = 0.1) come
    from a server that averages the v_i: ``average_personal``.

    Paper: Li, Hu, Beirami & Smith, 2021, algorithm 1.
    Variant: as many personal steps as global ones, at the same learning rate; the mean is FedAvg's.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    lam: Any = searchable(1.0, ge=0, log=(1e-2, 10.0))
    average_personal: bool = False

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "v": w, "optimizer_v": site.optimizer.init(w)}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        def drawn(v: Tensor) -> tuple[Tensor, Tensor]:
            forward = site.forward(v, batch, stream=1)
            return site.loss(forward.output, batch) + self.lam / 2 * squared_distance(v, received["w"]), forward.w

        gradient, v = site.gradient(drawn, client["v"])
        v, state = site.optimizer.step(v, gradient, client["optimizer_v"])
        return {**super().step(client, received, batch, site), "v": v, "optimizer_v": state}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return client, {"w": client["v"] if self.average_personal else client["w"]}

    def personal(self, client: Tree) -> Tree:
        return {"w": client["v"]}
