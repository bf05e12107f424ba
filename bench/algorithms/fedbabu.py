"""FedBABU (Oh, Kim & Yun, 2022): a federated base, and a head that is only fine-tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from bench.algorithms.base import Batch, Site, Tree
from bench.algorithms.fedper import FedPer
from bench.models.functional import Model
from bench.registry import Allowed, register


@register("fedbabu")
@dataclass(frozen=True)
class FedBABU(FedPer):
    """Clients train the base with an untrained head; after the last round, each fine-tunes its whole model.

    w_base = sum_i (n_i / n) w_base,i in every round. The head keeps its random initial weights, the same for all
    clients, until fine-tuning. This takes ``epochs`` epochs of local steps on F_i(w_base, w_head) at the same learning
    rate, with a new optimiser. The numbers of PLayer-FL use ``head_only`` and one epoch, and the head of its CNNs is
    all linear layers: ``layers`` is then the number of layers in the base. Of the checkpoints, only "latest" is always
    fine-tuned. Batch-norm: training and tuning normalise with the batch's statistics, so running statistics are updated
    even where the layer's weights are not trained (``head_only``).

    Paper: Oh, Kim & Yun, 2022, algorithm 1.
    Variant: fine-tuning of the whole model, or of the head only.
    Communication cost: d_base up, d_base down.
    """

    epochs: Annotated[int, Allowed(ge=0)] = 5
    head_only: bool = False
    layers: Annotated[int | None, Allowed(ge=1)] = None

    def shared(self, name: str, model: Model) -> bool:
        if self.layers is None:
            return super().shared(name, model)
        return model.layers.index(name.rpartition(".")[0]) < self.layers

    def init_client(self, w: Tensor, site: Site) -> Tree:
        return {**super().init_client(w, site), "fresh": site.optimizer.init(w)}

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        after = super().step(client, received, batch, site)
        return {**after, "w": site.with_statistics(site.install(client["w"], site.share(after["w"])), after["w"])}

    def tuning(self, last: bool) -> int:
        return self.epochs if last else 0

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        # The tuned state is discarded after the evaluation, so the optimiser is new in every round.
        after = super().step({**client, "optimizer": client["fresh"]}, received, batch, site)
        if not self.head_only:
            return {**client, "w": after["w"], "fresh": after["optimizer"]}
        w = site.install(after["w"], site.share(client["w"]))
        return {**client, "w": site.with_statistics(w, after["w"]), "fresh": after["optimizer"]}
