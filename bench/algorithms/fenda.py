"""FENDA-FL (Tavakoli et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("fenda")
@dataclass(frozen=True)
class Fenda(Algorithm):
    """A local and a global feature extractor in parallel under a local head, trained together.

    y_i = g_i(f_w(x), f_wi(x)): the head g_i and the local extractor f_wi stay with client i; the server averages the
    global extractors f_w, weighted by samples. All clients have the same initial local extractor and head.

    Paper: Tavakoli et al., 2023, section 3.1, Figure 1 and the equation of appendix J, which has no number.
    Variant: features are concatenated, and no term of the loss separates them.
    Communication cost: d_global up, d_global down.
    """

    personalised: ClassVar[bool] = True
    parallel: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return name.startswith("global_extractor.")
