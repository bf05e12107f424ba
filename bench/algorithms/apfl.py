"""APFL (Deng et al., 2020): twin models, mixed at their outputs or in their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.func import grad

from bench.algorithms.base import Algorithm, Batch, Site, Tree, searchable
from bench.models.functional import Model
from bench.registry import register


@register("apfl")
@dataclass(frozen=True)
class Apfl(Algorithm):
    """A global model w trained by FedAvg and a local model v, mixed with weights alpha and 1 - alpha.

    mixes = "outputs" (as in FENDA-FL) predicts alpha v(x) + (1 - alpha) w(x). In every local step, w takes a step on
    its own loss; then v takes a step on the loss of the mixture with the new w. After the first local step of a round,
    alpha changes by -alpha_lr (<v - w, alpha g_v + (1 - alpha) g_w> + 0.02 alpha) and is clipped to [0, 1]. g_v and g_w
    are the gradients of the mixture's loss. alpha stays with its client. (The term 0.02 alpha is from the authors'
    code.) mixes = "weights" (algorithm 1 of the paper) predicts with m = alpha v + (1 - alpha) w. In every local step,
    all from the same v, w and alpha: w = w - lr g(w);  v = v - lr alpha g(m);  alpha = alpha - alpha_lr <v - w, g(m)>
    (equation 10), clipped to [0, 1]; the paper's alpha_lr is lr. alpha = 1 and alpha_lr = 0 are local training.
    Batch-norm: mixed weights use the running statistics of v.

    Paper: Deng, Kamani & Mahdavi, 2020, algorithm 1 and equation 10; Tavakoli et al., 2023 (FENDA-FL), section 3.
    Variant: mixed outputs, as in FENDA-FL, or mixed weights, as in the paper; the mean is FedAvg's.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    mixes: Literal["outputs", "weights"] = "outputs"
    alpha_lr: Any = searchable(0.01, ge=0, log=(1e-4, 1.0))
    alpha: Any = searchable(0.5, ge=0, le=1)

    def parameters(self, model: Model) -> int:
        return 2 * model.trainable

    def init_client(self, w: Tensor, site: Site) -> Tree:
        state = site.optimizer.init(w)
        alpha = torch.as_tensor(self.alpha, dtype=w.dtype)
        return {"w": w, "v": w, "alpha": alpha, "optimizer_w": state, "optimizer_v": state}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        gradient, w = site.gradient(lambda w: self.loss(w, batch, client, received, site), client["w"])
        w, optimizer_w = site.optimizer.step(w, gradient, client["optimizer_w"])
        if self.mixes == "weights":
            return self._mixed_step(client, batch, site) | {"w": w, "optimizer_w": optimizer_w}
        alpha = client["alpha"]

        def mixed_loss(v: Tensor, w: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            # Three passes with different dropout masks: the global model above (stream 0), and the two of the mixture.
            ours, theirs = site.forward(v, batch, stream=1), site.forward(w, batch, stream=2)
            return site.loss(alpha * ours.output + (1 - alpha) * theirs.output, batch), (ours.w, theirs.w)

        (g_v, g_w), (updated_v, updated_w) = grad(mixed_loss, argnums=(0, 1), has_aux=True)(client["v"], w)
        g_v, g_w = site.trained(g_v), site.trained(g_w)
        v, optimizer_v = site.optimizer.step(site.with_statistics(client["v"], updated_v), g_v, client["optimizer_v"])
        w = site.with_statistics(w, updated_w)
        slope = ((v - w) * (alpha * g_v + (1 - alpha) * g_w)).sum() + 0.02 * alpha
        adapted = torch.clamp(alpha - self.alpha_lr * slope, 0, 1)
        alpha = torch.where(site.step == 0, adapted, alpha)
        return {"w": w, "v": v, "alpha": alpha, "optimizer_w": optimizer_w, "optimizer_v": optimizer_v}

    def _mixed_step(self, client: Tree, batch: Batch, site: Site) -> Tree:
        """Return v, alpha and v's optimiser after a local step on mixed weights."""

        def loss(m: Tensor) -> tuple[Tensor, Tensor]:
            forward = site.forward(m, batch, stream=1)
            return site.loss(forward.output, batch), forward.w

        alpha, v = client["alpha"], client["v"]
        gradient, updated = site.gradient(loss, self._mixture(client, site))
        slope = ((v - client["w"]) * gradient).sum()
        v, optimizer_v = site.optimizer.step(site.with_statistics(v, updated), alpha * gradient, client["optimizer_v"])
        return {"v": v, "alpha": torch.clamp(alpha - self.alpha_lr * slope, 0, 1), "optimizer_v": optimizer_v}

    @staticmethod
    def _mixture(twins: Tree, site: Site) -> Tensor:
        """Return the mixed weights with the running statistics of v, which is trained on the mixture's batches."""
        return site.with_statistics(twins["alpha"] * twins["v"] + (1 - twins["alpha"]) * twins["w"], twins["v"])

    def watch(self, client: Tree, site: Site) -> dict[str, Tensor]:
        return {"alpha": client["alpha"]}

    def personal(self, client: Tree) -> Tree:
        return {"w": client["w"], "v": client["v"], "alpha": client["alpha"]}

    def predict(self, personal: Tree, x: Tensor, site: Site) -> Tensor:
        if self.mixes == "weights":
            return site.model(self._mixture(personal, site), x).output
        ours, theirs = site.model(personal["v"], x).output, site.model(personal["w"], x).output
        return personal["alpha"] * ours + (1 - personal["alpha"]) * theirs
