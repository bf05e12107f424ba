"""MOON (Li, He & Song, 2021), as the later version of FENDA-FL runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, contrast, searchable
from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("moon")
@dataclass(frozen=True)
class Moon(FedAvg):
    """FedAvg with a contrastive term: features move towards the global model's, away from the previous ones.

    F_i(w) + mu contrast(z, z_glob, z_prev), where contrast is -log of e^{cos(z, z_glob) / T} divided by the sum of it
    and e^{cos(z, z_prev) / T} (equation 3). z are the features of the current model, z_glob of the received model
    (frozen), z_prev of the client's model at the end of its previous local training (frozen); T = 0.5. The term starts
    with the second round. mu = 0 is FedAvg.

    Paper: Li, He & Song, 2021, equation 3 (algorithm 1, lines 14 to 17).
    Variant: no projection head, and no contrastive term in the first round (FENDA-FL's later version, section 3).
    Communication cost: d up, d down.
    """

    mu: Any = searchable(1.0, ge=0, log=(1e-3, 10.0))
    temperature: ClassVar[float] = 0.5

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "previous": w}

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        forward = site.forward(w, batch)
        z_glob, z_prev = site.features(received["w"], batch), site.features(client["previous"], batch)
        contrasts = contrast(forward.features, z_glob, z_prev, self.temperature)
        mu = self.mu * (site.round > 0)
        return site.loss(forward.output, batch) + mu * (contrasts * batch.weight).sum(), forward.w

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return super().end({**client, "previous": client["w"]}, received, site)
