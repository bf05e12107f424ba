"""LocalAdaptation: FedAvg, then local epochs (Yu, Bagdasaryan & Shmatikov, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.registry import Allowed, register


@register("local_adaptation")
@dataclass(frozen=True)
class LocalAdaptation(FedAvg):
    """FedAvg; after the last round, every client trains the global model for some epochs.

    After the last w^{t+1} = sum_i (n_i / n) w_i, client i continues from it with local steps on F_i(w). It is FedAvg-FT
    with every_round = false. The numbers of PLayer-FL use one epoch, the same learning rate, and the client's optimiser
    state. 0 epochs are FedAvg. Of the checkpoints, only "latest" is always adapted: "global" and "local" keep the model
    of an earlier round if its validation loss was lower.

    Paper: Elhussein & Gürsoy, 2025 (PLayer-FL), section 7.1, without an equation; after Yu et al., 2020.
    Variant: all weights are fine-tuned.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    epochs: Annotated[int, Allowed(ge=0)] = 1

    def tuning(self, last: bool) -> int:
        return self.epochs if last else 0
