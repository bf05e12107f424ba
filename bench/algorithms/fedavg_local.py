"""Local models of FedAvg, as APPLE compares with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.registry import register


@register("fedavg_local")
@dataclass(frozen=True)
class FedAvgLocal(FedAvg):
    """FedAvg in which every client is evaluated with its own weights just before averaging.

    The evaluated models are the w_i of w^{t+1} = sum_i (n_i / n) w_i.

    Paper: Luo & Wu, 2022 (APPLE), section 4.1 and table 1, without an equation.
    Variant: training is FedAvg's.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    before_aggregation: ClassVar[bool] = True
