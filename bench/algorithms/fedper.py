"""FedPer (Arivazhagan et al., 2019): a federated base and a personal head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("fedper")
@dataclass(frozen=True)
class FedPer(Algorithm):
    """Base and head are trained together; the server averages the bases, and every client keeps its head.

    w_base = sum_i (n_i / n) w_base,i. The head is the model's ``head``, or its last layer with parameters.

    Paper: Arivazhagan et al., 2019; Tavakoli et al., 2023 (FENDA-FL, later version), section 3.
    Variant: the heads have equal initial weights; the mean is FedAvg's.
    Communication cost: d_base up, d_base down.
    """

    personalised: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return not model.in_head(name)
