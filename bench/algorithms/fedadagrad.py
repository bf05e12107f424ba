"""FedAdagrad (Reddi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bench.algorithms.fedadam import FedAdam
from bench.registry import register


@register("fedadagrad")
@dataclass(frozen=True)
class FedAdagrad(FedAdam):
    """FedAdam without momentum, with a second moment that accumulates.

    v = v + Delta^2. m and the server's step are FedAdam's, with b1 = 0 (so that m = Delta), tau = 1e-3 and initially
    v = tau^2.

    Paper: Reddi et al., 2021, algorithm 2, line v (marked FedAdagrad).
    Variant: clients are weighted by samples; the paper's mean is unweighted.
    Communication cost: d up, d down.
    """

    beta1: ClassVar[float] = 0.0
    tau: ClassVar[float] = 1e-3
    v0: ClassVar[float] = 1e-6

    def second_moment(self, v: Tensor, delta: Tensor) -> Tensor:
        return v + delta**2
