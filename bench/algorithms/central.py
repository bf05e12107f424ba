"""Central training on pooled samples (a baseline of FENDA-FL, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("central")
@dataclass(frozen=True)
class Central(Algorithm):
    """One model trained on all clients' samples together, tested on every client. Nothing travels."""

    pooled: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return False
