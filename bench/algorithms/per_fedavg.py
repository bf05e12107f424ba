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
    """Find weights from which one gradient step on a client's own samples gives a good model (MAML).

    Minimises mean_i F_i(w - alpha grad F_i(w)). A local step with parts D, D', D'' of its mini-batch is u = w - alpha
    g(w; D), then a step of the optimiser (equation 7), at lr, along (I - alpha H(w; D'')) g(u; D'), an estimate of that
    function's gradient (equation 5). The first-order form omits H; ``hessian_free`` uses H x = (g(w + delta x; D'') -
    g(w - delta x; D'')) / (2 delta), delta = 0.001. The paper draws D, D' and D'' independently. Here they are every
    second (first-order) or third (Hessian-free) sample of one mini-batch, or all of it if a part would be empty. The
    server's mean is uniform. The personal model, in every round, is the global one after a gradient step of alpha on
    one mini-batch. Batch-norm: every part is normalised by its own samples. Parts of fewer than two samples cannot be
    normalised; then all parts are the whole mini-batch. The pass at w on D updates the running statistics.

    Paper: Fallah, Mokhtari & Ozdaglar, 2020, equations 5 and 7 (algorithm 1); section 5 for both estimates of H.
    Variant: first-order, or Hessian-free; one mini-batch serves as D, D' and D''.
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
        """Return the gradient on part number ``part`` of the mini-batch, and w with updated running statistics."""
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
        """Return a part as its own batch, to be normalised by its own samples; the whole batch if that is too small."""
        if len(batch.weight) < 2 * parts:
            return batch
        x, y, weight = (each[part::parts] for each in batch)
        return Batch(x, y, weight / weight.sum())
