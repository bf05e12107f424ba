"""Per-FedAvg (Fallah, Mokhtari & Ozdaglar, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, searchable, uniform_mean
from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("per_fedavg")
@dataclass(frozen=True)
class PerFedAvg(FedAvg):
    """Finds weights from which one gradient step on a client's own samples gives a good model (MAML).

    Minimises mean_i F_i(w - alpha grad F_i(w)). A local step with parts D, D', D'' of its mini-batch:
    u = w - alpha g(w; D), then a step of the optimiser (equation 7), at lr, along (I - alpha H(w; D'')) g(u; D'), an
    estimate of that function's gradient (equation 5). H is left out (first-order); ``hessian_free`` takes
    H x = (g(w + delta x; D'') - g(w - delta x; D'')) / (2 delta), delta = 0.001. The paper draws D, D' and D'' apart;
    here they are every second (first-order) or third (Hessian-free) sample of the mini-batch, or all of it where a part
    would be empty. The server's mean is uniform. The personal model, in every round, is the global one after a gradient
    step of alpha on one mini-batch.

    Paper: Fallah, Mokhtari & Ozdaglar, 2020, equations 5 and 7 (algorithm 1); the two ways with H are its section 5's.
    Variant: first-order, or Hessian-free; one mini-batch serves for three.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    alpha: Any = searchable(0.01, ge=0, log=(1e-3, 1.0))
    hessian_free: bool = False
    delta: ClassVar[float] = 1e-3

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        parts = 3 if self.hessian_free else 2
        gradient, w = self._gradient(client["w"], batch, site, 0, parts)
        direction, _ = self._gradient(w - self.alpha * gradient, batch, site, 1, parts)
        if self.hessian_free:
            ahead, _ = self._gradient(w + self.delta * direction, batch, site, 2, parts)
            behind, _ = self._gradient(w - self.delta * direction, batch, site, 2, parts)
            direction = direction - self.alpha * (ahead - behind) / (2 * self.delta)
        w, state = site.optimizer.step(w, direction, client["optimizer"])
        return {**client, "w": w, "optimizer": state}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        return {"w": uniform_mean(uploads["w"])}

    def tuning(self, last: bool) -> int:
        return 1

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        gradient, w = self._gradient(client["w"], batch, site, 0, 1)
        return {**client, "w": torch.where(site.step == 0, w - self.alpha * gradient, client["w"])}

    def _gradient(self, w: Tensor, batch: Batch, site: Site, part: int, parts: int) -> tuple[Tensor, Tensor]:
        """Return the gradient on part number ``part`` of the mini-batch, with its own dropout masks, and w moved on."""
        if site.model.batch_norm:
            used = self._rows(batch, part, parts)
        else:
            chosen = batch.weight * (torch.arange(len(batch.weight)) % parts == part)
            used = batch._replace(weight=torch.where(chosen.sum() > 0, chosen / chosen.sum(), batch.weight))

        def loss(w: Tensor) -> tuple[Tensor, Tensor]:
            forward = site.forward(w, used, stream=part)
            return site.loss(forward.output, used), forward.w

        return site.gradient(loss, w)

    @staticmethod
    def _rows(batch: Batch, part: int, parts: int) -> Batch:
        """Return a part as a batch of its own, to be normalised by its own samples; all of it if the part has one."""
        if len(batch.weight) < 2 * parts:
            return batch
        x, y, weight = (each[part::parts] for each in batch)
        return Batch(x, y, weight / weight.sum())
