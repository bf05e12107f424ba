"""PLayer-FL (Elhussein & Gürsoy, 2025): layers before a jump in sensitivity are federated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Site, Tree, mean, searchable
from bench.algorithms.layers import cumulative_sensitivity
from bench.registry import Allowed, register


@register("player_fl")
@dataclass(frozen=True)
class PLayerFL(Algorithm):
    """The first layers are federated, their number chosen by federation sensitivity; the others stay with the client.

    After the first round (one epoch in the paper) the server adds the clients' F_l = sum_{k<=l} 1/n_k sum_p (w_p g_p)^2
    (equation 2). From then on it federates the first p layers, with p the smallest for which F_{p+1} / F_p > threshold
    (equation 3), or all if there is none. The gradient is that of the last local step of the round. The threshold is
    not published; 1.1 to 1.2 gives the paper's layers (Table A.2) on its own curves except on Fed-Heart-Disease. The
    published numbers use fixed lists: ``layers`` is their p. PLayer-FL-1 and +1 federate one layer fewer or more:
    ``shift``. All layers are FedAvg, no layer is local training. ``probe`` analyses the models of the last round by
    layer: "gradients" (sensitivity, variance, trace of the Hessian), or "all" (also distances between clients).

    Paper: Elhussein & Gürsoy, 2025, equations 2 and 3 (algorithms 1 to 3).
    Variant: p from the sensitivities, as in the paper, or given, as for its numbers.
    Communication cost: d up, d down in the first round, then the weights of the first p layers.
    """

    personalised: ClassVar[bool] = True
    threshold: Any = searchable(1.15, gt=0, log=(1.02, 4.0))
    layers: Annotated[int | None, Allowed(ge=0)] = None
    shift: int = 0
    probe: Literal["none", "gradients", "all"] = "none"

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "sensitivity": torch.zeros(len(site.model.layers))}

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w[0], "p": torch.tensor(-1)}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return {"w": server["w"], "p": server["p"]}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        federated = torch.arange(len(site.model.layers)) < received["p"]
        return {**client, "w": torch.where(site.model.by_layer(federated), received["w"], client["w"])}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        gradient, w = site.gradient(lambda w: self.loss(w, batch, client, received, site), client["w"])
        sensitivity = cumulative_sensitivity(site.model, client["w"], gradient)
        w, state = site.optimizer.step(w, gradient, client["optimizer"])
        return {"w": w, "optimizer": state, "sensitivity": sensitivity}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return client, {"w": client["w"], "sensitivity": client["sensitivity"], "p": received["p"]}

    def watch(self, client: Tree, site: Site) -> dict[str, Tensor]:
        return {"sensitivity": client["sensitivity"]}

    def layer_analysis(self) -> str:
        return self.probe

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        p = torch.where(server["p"] < 0, self.transition(uploads), server["p"])
        return {"w": mean(uploads["w"], weights), "p": p}

    def transition(self, uploads: Tree) -> Tensor:
        """Return the number of layers to federate (an integer), from the uploads of all clients."""
        total = uploads["sensitivity"].sum(0)
        jumps = total[1:] > self.threshold * total[:-1]
        p = (torch.cumsum(jumps, 0) == 0).sum() + 1
        if self.layers is not None:
            p = torch.full_like(p, self.layers)
        return torch.clamp(p + self.shift, 0, len(total))

    def floats(self, message: Tree, site: Site) -> Tensor:
        federated = torch.arange(len(site.model.layers)) < message["p"]
        return torch.where(message["p"] < 0, site.model.size, site.model.by_layer(federated).sum())
