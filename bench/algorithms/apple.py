"""APPLE (Luo & Wu, 2022): every client learns to mix the core models of all clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree, searchable
from bench.algorithms.peers import Peers
from bench.registry import Allowed, register
from bench.rng import derive, uniform


@register("apple")
@dataclass(frozen=True)
class Apple(Peers):
    """A personal model is a mixture of all clients' core models, with mixing weights that the client learns.

    w_i = sum_j p_ij c_j (equation 4). A local step, with g the gradient of the batch's loss at w_i, updates both at
    once: c_i = c_i - lr p_ii g (equation 5) and p_ij = p_ij - p_lr (<g, c_j> + lambda(r) mu (p_ij - p0_j)) (equation
    6). The second is the gradient of loss + lambda(r) mu/2 ||p_i - p0||^2 (equation 7). Cores have independent initial
    weights; p starts at p0_j = n_j / n and is not bounded. lambda falls from 1 to 0 in the first ``fade`` rounds, r
    from 0: (1 + cos(pi r / fade)) / 2, or with scheduler = "exponential" 0.001^(r / fade), which the paper misprints.
    The released code omits the factor 1/2, so that its mu is half of the mu here. The evaluated model is w_i after
    local work: the client's own new core with the other cores as downloaded before it.

    With a ``budget`` of M < C - 1 downloads, a core that is not downloaded keeps its last downloaded value in the
    mixture. All clients receive the initial cores. Cores never downloaded since come first, in random order. The
    remaining places are drawn without replacement with probability ~ b^|p_ij| (equation 9), b = max(1.5, r M / C)
    (equation 8). selection = "uniform" draws all places uniformly, as the released code does, which never notes its
    downloads. Batch-norm: running statistics are not mixed; they stay with their client.

    Paper: Luo & Wu, 2022, equations 4 to 9 (algorithm 1, lines 5 to 10; appendices A.1 and A.2).
    Variant: the paper's mu/2, r from 0, and cores that are not downloaded keep their last value in the mixture.
    Communication cost: d up, (C - 1) d or M d down.
    """

    independent_init: ClassVar[bool] = True
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    excluded: ClassVar[tuple[str, ...]] = ("weight_decay",)  # would shrink p to 0
    p_lr: Any = searchable(1e-3, ge=0, log=(1e-4, 1e-2))
    mu: Any = searchable(0.1, ge=0, log=(1e-3, 1.0))
    fade: Any = searchable(48, gt=0)
    budget: Annotated[int | None, Allowed(ge=1)] = None
    scheduler: Literal["cosine", "exponential"] = "cosine"
    selection: Literal["paper", "uniform"] = "paper"

    def init_client(self, w: Tensor, site: Site) -> Tree:
        p = site.weights
        state = {"w": w, "p": p, "mixed": w, "optimizer": site.optimizer.init(w), "optimizer_p": site.optimizer.init(p)}
        if self.limited(site.clients):
            state |= {"cores": w.expand(site.clients, -1), "visited": torch.zeros(site.clients, dtype=torch.bool)}
        return state

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        if not self.limited(site.clients):
            return client
        first = site.round == 0
        chosen = self._chosen(client, site)
        cores = torch.where((chosen | first)[:, None], received["models"], client["cores"])
        return {**client, "cores": cores, "visited": client["visited"] | (chosen & ~first)}

    def _chosen(self, client: Tree, site: Site) -> Tensor:
        """Return which cores (C,) to download."""
        assert self.budget is not None
        u = place = uniform(site.key ^ derive("download"), site.clients)
        if self.selection == "paper":
            b = torch.clamp(site.round * self.budget / site.clients, min=1.5)
            # The order of exponential times with rates b^|p| is that of draws without replacement.
            place = torch.where(client["visited"], -torch.log(u) / b ** client["p"].abs(), u - 1)
        place = torch.where(_own(site), torch.inf, place)
        return place.argsort().argsort() < self.budget

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        own, p, core, cores = _own(site), client["p"], client["w"], self._cores(client, received, site)
        w = self._mixture(client, cores, site)
        gradient, updated = site.gradient(lambda w: self.loss(w, batch, client, received, site), w)
        slope = torch.where(own, core @ gradient, cores @ gradient)
        slope = slope + self._pull(site) * (p - site.weights)
        ours = (p * own).sum() * gradient
        core, optimizer = site.optimizer.step(site.with_statistics(core, updated), ours, client["optimizer"])
        p, optimizer_p = site.optimizer_at(self.p_lr).step(p, slope, client["optimizer_p"])
        return {**client, "w": core, "p": p, "optimizer": optimizer, "optimizer_p": optimizer_p}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        mixed = self._mixture(client, self._cores(client, received, site), site)
        return super().end({**client, "mixed": mixed}, received, site)

    def watch(self, client: Tree, site: Site) -> dict[str, Tensor]:
        return {"p": client["p"]}

    def personal(self, client: Tree) -> Tree:
        return {"w": client["mixed"], "p": client["p"]}

    def _cores(self, client: Tree, received: Tree, site: Site) -> Tensor:
        """Return all clients' cores (C, d) as this client has them; its own row is out of date."""
        cores: Tensor = client["cores"] if self.limited(site.clients) else received["models"]
        return cores

    def _mixture(self, client: Tree, cores: Tensor, site: Site) -> Tensor:
        own, p = _own(site), client["p"]
        mixed = torch.where(own, 0, p) @ cores + (p * own).sum() * client["w"]
        return site.with_statistics(mixed, client["w"])

    def _pull(self, site: Site) -> Tensor:
        """Return lambda(r) mu."""
        share = site.round / self.fade
        falling = (1 + torch.cos(torch.pi * share)) / 2 if self.scheduler == "cosine" else 0.001**share
        return torch.where(share < 1, self.mu * falling, 0)


def _own(site: Site) -> Tensor:
    """Return a mask (C,) of this client."""
    return torch.arange(site.clients) == site.index
