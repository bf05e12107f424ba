"""LocalAdaptation: FedAvg, then local epochs (Yu, Bagdasaryan & Shmatikov, 2020), as PLayer-FL compares with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.registry import Allowed, register


@register("local_adaptation")
@dataclass(frozen=True)
class LocalAdaptation(FedAvg):
    """FedAvg; after the last round every client trains the global model on for some epochs of its own.

    After the last w^{t+1} = sum_i (n_i / n) w_i, client i goes on from it with local steps on F_i(w). It is FedAvg-FT
    with every_round = false. PLayer-FL's numbers are of one epoch, at the same learning rate and with the optimiser
    state the client has; 0 epochs are FedAvg. Of the checkpoints only "latest" is sure to be adapted: "global" and
    "local" keep the model of an earlier round if its validation loss was lower.

    Paper: Elhussein & Gürsoy, 2025 (PLayer-FL), section 7.1, without an equation; after Yu et al., 2020.
    Variant: all weights are fine-tuned.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    epochs: Annotated[int, Allowed(ge=0)] = 1

    def tuning(self, last: bool) -> int:
        return self.epochs if last else 0
