"""FedBABU (Oh, Kim & Yun, 2022): the base is federated, the head waits for fine-tuning."""

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
    """Clients train the base under an untrained head; after the last round each fine-tunes the whole model.

    w_base = sum_i (n_i / n) w_base,i in every round. The head keeps its random initial weights, the same everywhere,
    until fine-tuning, local steps on F_i(w_base, w_head) of both, which takes ``epochs`` epochs at the same learning
    rate with a fresh optimiser. PLayer-FL's numbers are of ``head_only``, with one epoch, and of its CNNs all linear
    layers are the head: the base is the model's first ``layers``, where that is given. Of the checkpoints only "latest"
    is sure to be fine-tuned.

    Paper: Oh, Kim & Yun, 2022, algorithm 1.
    Variant: the whole model is fine-tuned, or the head alone.
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
        return {**after, "w": site.moved(site.install(client["w"], site.share(after["w"])), after["w"])}

    def tuning(self, last: bool) -> int:
        return self.epochs if last else 0

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        # What tuning does is forgotten after the evaluation, so its optimiser is fresh in every round.
        after = super().step({**client, "optimizer": client["fresh"]}, received, batch, site)
        if not self.head_only:
            return {**client, "w": after["w"], "fresh": after["optimizer"]}
        w = site.install(after["w"], site.share(client["w"]))
        return {**client, "w": site.moved(w, after["w"]), "fresh": after["optimizer"]}
