"""FENDA-FL (Tavakoli et al., 2023, section 3.1 and Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("fenda")
@dataclass(frozen=True)
class Fenda(Algorithm):
    """A local and a global feature extractor side by side under a local head, trained together.

    Only the global extractor travels; the server averages it, weighted by samples. Every client begins with the
    same local extractor and head. Travels: d_global up, d_global down.
    """

    parallel: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return name.startswith("global_extractor.")
