"""FedAMP (Huang et al., 2021): similar clients attract each other's models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Site, Tree, count, searchable, squared_distance
from bench.registry import Allowed, register


@register("fedamp")
@dataclass(frozen=True)
class FedAMP(Algorithm):
    """Every client is regularised towards its own cloud model, a mean of all models in which similar ones weigh more.

    Server: u_i = sum_j xi_ij w_j, with xi_ij = alpha_k A'(||w_i - w_j||^2) for j != i, A'(x) = exp(-x / sigma) / sigma,
    and xi_ii = 1 - the sum of the others, which is negative if alpha_k is too large (equation 5). Client: w_i minimises
    F_i(w) + lam / (2 alpha_k) ||w - u_i||^2 (equation 6) by local steps that continue from its own weights. alpha_k is
    ``alpha``, multiplied by ``alpha_decay`` after every ``interval`` rounds. lam = 0 is local training.
    The framework flgo starts local training from the cloud model u_i instead.
    Batch-norm: similarities compare trained weights only, and running statistics stay with their client.

    Paper: Huang et al., 2021, equations 5 and 6 (algorithm 1).
    Variant: A(x) = 1 - exp(-x / sigma); equation 6 is minimised approximately, by the local steps of a round.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    lam: Any = searchable(1.0, ge=0, log=(1e-2, 1e2))
    alpha: Any = searchable(1e4, gt=0, log=(1.0, 1e4))
    alpha_decay: Any = searchable(0.1, gt=0, le=1)
    sigma: Any = searchable(1e6, gt=0, log=(1.0, 1e6))
    interval: Annotated[int, Allowed(ge=1)] = 30

    def init_server(self, w: Tensor) -> Tree:
        return {"u": w, "round": torch.tensor(0)}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return {"u": server["u"].index_select(0, client[None])[0]}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        return client

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        loss, updated = super().loss(w, batch, client, received, site)
        pull = self.lam / (2 * self._alpha(site.round))
        return loss + pull * squared_distance(site.share(w), received["u"]), updated

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return client, {"w": client["w"], "compared": site.trained(client["w"])}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        round_ = server["round"] + 1
        return {"u": self.attention(uploads["compared"], self._alpha(round_)) @ uploads["w"], "round": round_}

    def attention(self, models: Tensor, alpha: Tensor) -> Tensor:
        """Return the weights xi (C, C) of the models (C, d) in each client's cloud model."""
        distances = torch.stack([((models - model) ** 2).sum(1) for model in models])
        xi = alpha * torch.exp(-distances / self.sigma) / self.sigma
        own = torch.eye(len(models), dtype=torch.bool)
        others = torch.where(own, 0, xi)
        return torch.where(own, 1 - others.sum(1), others)

    def floats(self, message: Tree, site: Site) -> Any:
        return count({name: value for name, value in message.items() if name != "compared"})

    def _alpha(self, round_: Tensor) -> Tensor:
        return self.alpha * self.alpha_decay ** (round_ // self.interval)
