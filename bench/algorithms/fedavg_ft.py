"""FedAvg with fine-tuning (Wang et al., 2019; FedAvg-FT of APPLE's table 1)."""

from __future__ import annotations

from dataclasses import dataclass

from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("fedavg_ft")
@dataclass(frozen=True)
class FedAvgFT(FedAvg):
    """FedAvg in which every client tunes a copy of the global model before it is evaluated.

    Tuning is ``epochs`` epochs of the client's local steps, after every round or, with every_round = false, after
    the last one only; federated weights and optimiser states do not change. APPLE does not say how many epochs its
    table had. epochs = 0 is FedAvg. Travels: d up, d down.
    """

    epochs: int = 1
    every_round: bool = True

    def tuning(self, last: bool) -> int:
        return self.epochs if last or self.every_round else 0
