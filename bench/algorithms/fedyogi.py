"""FedYogi (Reddi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.algorithms.fedadam import FedAdam
from bench.registry import register


@register("fedyogi")
@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAdam whose second moment moves towards Delta^2 by a step that does not depend on their distance.

    v = v - (1 - b2) Delta^2 sign(v - Delta^2). m and the server's step are FedAdam's, with b1 = 0.9, b2 = 0.99,
    tau = 1e-3 and initially v = tau^2, as the algorithm requires for every v.

    Paper: Reddi et al., 2021, algorithm 2, line v (marked FedYogi).
    Variant: clients are weighted by samples; the paper's mean is unweighted.
    Communication cost: d up, d down.
    """

    tau: ClassVar[float] = 1e-3
    v0: ClassVar[float] = 1e-6

    def second_moment(self, v: Tensor, delta: Tensor) -> Tensor:
        return v - (1 - self.beta2) * delta**2 * torch.sign(v - delta**2)
