"""Local training without federation, the silo and local baselines of FENDA-FL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("local")
@dataclass(frozen=True)
class Local(Algorithm):
    """Every client trains alone; its model is tested on its own samples (silo) and on those of all clients (local).

    w_i minimises F_i(w) only.

    Paper: Tavakoli et al., 2023 (FENDA-FL), section 3.3, without an equation.
    Variant: rounds, local steps and batches are the study's.
    Communication cost: nothing.
    """

    personalised: ClassVar[bool] = True
    cross_evaluate: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return False
