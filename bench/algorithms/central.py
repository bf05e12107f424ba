"""Central training on pooled samples, a baseline of FENDA-FL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("central")
@dataclass(frozen=True)
class Central(Algorithm):
    """One model trained on all clients' samples together, and tested on every client.

    w minimises sum_i (n_i / n) F_i(w), the mean loss over the samples of all clients.

    Paper: Tavakoli et al., 2023 (FENDA-FL), section 3.3, without an equation.
    Variant: rounds, local steps and batches are the study's; batches are drawn from the samples of all clients.
    Communication cost: nothing.
    """

    pooled: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return False
