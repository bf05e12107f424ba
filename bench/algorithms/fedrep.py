"""FedRep (Collins et al., 2021): local steps on the head first, then on the base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from bench.algorithms.base import Batch, Site, Tree
from bench.algorithms.fedper import FedPer
from bench.registry import Allowed, register
from bench.types import SpecError


@register("fedrep")
@dataclass(frozen=True)
class FedRep(FedPer):
    """In every round, a client trains its personal head on the received base, then the base with the new head.

    First h_i takes steps on F_i(w_base, h) from its last value, then w_base,i on F_i(w, h_i) from the received w_base =
    sum_i (n_i / n) w_base,i. Of every ``head_epochs`` + ``base_epochs`` local epochs, the first train the head and the
    others the base; a number of local steps is divided likewise, rounded in favour of the base. The paper trains the
    head for ten epochs, then the base for one. Both parts start with a new optimiser. Batch-norm: all local steps
    normalise with the batch's statistics and update all running statistics, also those of the part that is not trained.

    Paper: Collins et al., 2021, algorithm 1.
    Variant: both parts take mini-batch steps of the same optimiser; the mean is FedAvg's.
    Communication cost: d_base up, d_base down.
    """

    head_epochs: Annotated[int, Allowed(ge=0)] = 10
    base_epochs: Annotated[int, Allowed(ge=0)] = 1

    def __post_init__(self) -> None:
        if not self.head_epochs + self.base_epochs:
            raise SpecError("head_epochs = 0 and base_epochs = 0 leave nothing to train; raise one of them")

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        turn = torch.floor(site.steps * self.head_epochs / (self.head_epochs + self.base_epochs))
        begins = (site.step == 0) | (site.step == turn)
        fresh = site.optimizer.init(client["w"])
        state = {name: torch.where(begins, fresh[name], kept) for name, kept in client["optimizer"].items()}
        after = super().step({**client, "optimizer": state}, received, batch, site)
        with_head = site.install(after["w"], site.share(client["w"]))
        with_base = site.install(client["w"], site.share(after["w"]))
        return {**after, "w": site.with_statistics(torch.where(site.step < turn, with_head, with_base), after["w"])}
