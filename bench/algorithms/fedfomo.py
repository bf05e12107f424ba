"""FedFomo (Zhang et al., 2021): clients weight other clients' models by their effect on the own loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from bench.algorithms.base import Site, Tree, searchable
from bench.algorithms.peers import Peers
from bench.registry import Allowed, register
from bench.rng import derive, uniform


@register("fedfomo")
@dataclass(frozen=True)
class FedFomo(Peers):
    """First-order model optimisation: a client moves towards the models that lower its validation loss.

    s_n = (L(v) - L(w_n)) / ||w_n - v||, with L the loss on the client's validation samples, v the weights at the start
    of its last local training, and w_n the downloaded models and its own trained one. With a_n = max(s_n, 0) divided by
    their sum, w = v + sum_n a_n (w_n - v), and w = v if no model helps. Local training follows; its result is
    evaluated. A client without validation samples cannot compare models: it continues from its own trained weights.

    With a ``budget`` of M < C - 1 downloads, each is the model with the best affinity (the sum of all s_n so far) among
    the remaining ones, or in round r with probability max(epsilon - epsilon_decay r, 0) a random one.

    Paper: Zhang et al., 2021, described in Luo & Wu, 2022 (APPLE), section 2.2.
    Variant: the norm is L2, as in the paper; the released code uses L1 unless configured otherwise.
    Communication cost: d up, (C - 1) d or M d down.
    """

    validates: ClassVar[bool] = True
    before_aggregation: ClassVar[bool] = True
    epsilon: Any = searchable(0.3, ge=0, le=1)
    epsilon_decay: Any = searchable(0.05, ge=0)
    budget: Annotated[int | None, Allowed(ge=1)] = None

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "began": w, "affinity": torch.zeros(site.clients)}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        everybody, began = torch.arange(site.clients), client["began"]
        chosen = self._chosen(client, site) if self.limited(site.clients) else everybody
        models = received["models"][chosen]
        loss = self._loss(began, site)
        worth = torch.stack([self._worth(loss - self._loss(w, site), site.trained(w - began)) for w in models])
        useful = torch.clamp(worth, min=0)
        shares = useful / torch.where(useful.sum() > 0, useful.sum(), 1)
        assert site.validation is not None
        validates = site.validation.weight.sum() > 0
        w = torch.where(validates, began + shares @ (models - began), client["w"])
        affinity = client["affinity"].scatter_add(0, chosen, worth)
        return {**client, "w": w, "began": w, "affinity": affinity}

    def _chosen(self, client: Tree, site: Site) -> Tensor:
        """Return the client's own number and those (M,) of the models to download."""
        assert self.budget is not None
        order = uniform(site.key ^ derive("order"), site.clients).argsort()
        epsilon = self.epsilon - self.epsilon_decay * site.round
        explores = uniform(site.key ^ derive("explore"), self.budget) < epsilon
        left, places = order != site.index, []
        for explore in explores:
            # Equal values are taken in random order; an explorer treats all values as equal.
            value = torch.where(explore, 0, client["affinity"][order])
            places.append(torch.where(left, value, -torch.inf).argmax())
            left = left & (torch.arange(site.clients) != places[-1])
        return torch.cat([site.index[None], order[torch.stack(places)]])

    @staticmethod
    def _loss(w: Tensor, site: Site) -> Tensor:
        assert site.validation is not None
        return site.loss(site.model(w, site.validation.x).output, site.validation)

    @staticmethod
    def _worth(gain: Tensor, move: Tensor) -> Tensor:
        distance = move.norm()
        return torch.where(distance > 0, gain / torch.where(distance > 0, distance, 1), 0)
