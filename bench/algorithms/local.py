"""Local training: no federation at all (the silo and local baselines of FENDA-FL, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("local")
@dataclass(frozen=True)
class Local(Algorithm):
    """Every client trains alone; its model is tested on its own samples (silo) and on everybody's (local).

    Nothing travels.
    """

    everywhere: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return False
