"""FedAvg with fine-tuning (Wang et al., 2019), as APPLE compares with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.registry import Allowed, register


@register("fedavg_ft")
@dataclass(frozen=True)
class FedAvgFT(FedAvg):
    """FedAvg in which every client tunes a copy of the global model before it is evaluated.

    u_i is w^{t+1} = sum_i (n_i / n) w_i after ``epochs`` epochs of local steps on F_i(u), in every round or, with
    every_round = false, only after the last one. Federated weights and optimiser states do not change. APPLE does not
    say how many epochs its table had. epochs = 0 is FedAvg.

    Paper: Luo & Wu, 2022 (APPLE), section 4.1 and table 1, without an equation; after Wang et al., 2019.
    Variant: the tuned model is evaluated and then discarded.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    epochs: Annotated[int, Allowed(ge=0)] = 1
    every_round: bool = True

    def tuning(self, last: bool) -> int:
        return self.epochs if last or self.every_round else 0
