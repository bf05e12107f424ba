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
    """FedAdam without momentum whose second moment adds up: steps shrink where changes were large.

    v = v + Delta^2; m and the server's step are FedAdam's, with b1 = 0 (so m = Delta), tau = 1e-3 and v = tau^2 at
    the start.

    Paper: Reddi et al., 2021, algorithm 2, line v (marked FedAdagrad).
    Variant: clients weigh by samples, where the paper has a plain mean.
    Communication cost: d up, d down.
    """

    beta1: ClassVar[float] = 0.0
    tau: ClassVar[float] = 1e-3
    v0: ClassVar[float] = 1e-6

    def second_moment(self, v: Tensor, delta: Tensor) -> Tensor:
        return v + delta**2
