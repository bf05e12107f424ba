"""pFedMe (Dinh, Tran & Nguyen, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Site, Tree, mean, searchable, squared_distance, uniform_mean
from bench.registry import Allowed, register


@register("pfedme")
@dataclass(frozen=True)
class PFedMe(Algorithm):
    """Clients descend their Moreau envelopes; the personal model is the envelope's minimiser.

    A local step on one mini-batch: theta ~ argmin F_i(theta) + lam/2 ||theta - w_i||^2 (equation 7) by ``inner_steps``
    (K) gradient steps of ``lr`` from theta = w_i; then w_i = w_i - eta lam (w_i - theta) (line 8). The authors' code
    starts from the previous theta instead of w_i. Server: w = (1 - beta) w + beta mean_i(w_i), uniform over clients.
    The last theta is tested. K = 1 and beta = 1 are uniform FedAvg at learning rate eta lam lr; keep eta lam at most 1.
    ``simplified`` is the variant of PLayer-FL's numbers (lam = 0.1). theta stays with its client over rounds and takes
    one step on F_i(theta) + lam/2 ||theta - w^t||^2, and the server averages the thetas, weighted by samples; eta, beta
    and K have no meaning. It equals Ditto with average_personal, which also takes AdamW.

    Paper: Dinh, Tran & Nguyen, 2020, equation 7 (algorithm 1, lines 7 and 8).
    Variant: the paper's, with all clients in every round, or ``simplified``.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    excluded: ClassVar[tuple[str, ...]] = ("momentum",)
    lam: Any = searchable(15.0, gt=0, log=(0.1, 100.0))
    eta: Any = searchable(0.005, gt=0, log=(1e-3, 1.0))
    beta: Any = searchable(1.0, ge=0, log=(0.5, 4.0))
    inner_steps: Annotated[int, Allowed(ge=1)] = 5
    simplified: bool = False

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "theta": w}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        w, state = client["w"], client["optimizer"]
        theta = client["theta"] if self.simplified else w
        for k in range(1 if self.simplified else self.inner_steps):

            def envelope(theta: Tensor, k: int = k) -> tuple[Tensor, Tensor]:
                forward = site.forward(theta, batch, stream=k)
                return site.loss(forward.output, batch) + self.lam / 2 * squared_distance(theta, w), forward.w

            gradient, theta = site.gradient(envelope, theta)
            theta, state = site.optimizer.step(theta, gradient, state)
        if not self.simplified:
            w = site.with_statistics(w - self.eta * self.lam * (w - theta), theta)
        return {"w": w, "theta": theta, "optimizer": state}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        return client, {"w": client["theta"] if self.simplified else client["w"]}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        if self.simplified:
            return {"w": mean(uploads["w"], weights)}
        return {"w": (1 - self.beta) * server["w"] + self.beta * uniform_mean(uploads["w"])}

    def personal(self, client: Tree) -> Tree:
        return {"w": client["theta"]}
