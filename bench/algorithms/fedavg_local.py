"""FedAvg's local models, as APPLE compares with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("fedavg_local")
@dataclass(frozen=True)
class FedAvgLocal(FedAvg):
    """FedAvg in which every client is evaluated with its own weights, as they are just before averaging.

    Evaluated are the w_i of w^{t+1} = sum_i (n_i / n) w_i.

    Paper: Luo & Wu, 2022 (APPLE), section 4.1 and table 1, which print no equation of it.
    Variant: training is FedAvg's in everything.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    before_aggregation: ClassVar[bool] = True
