"""LG-FedAvg (Liang et al., 2020): a personal base and a federated head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.base import Algorithm
from bench.models.functional import Model
from bench.registry import register


@register("lg_fedavg")
@dataclass(frozen=True)
class LGFedAvg(Algorithm):
    """Base and head are trained together; every client keeps its base, and the server averages the heads.

    w_head = sum_i (n_i / n) w_head,i. It is FedPer with base and head exchanged; the head is the model's ``head``, or
    its last layer with parameters.

    Paper: Liang et al., 2020, algorithm 1.
    Variant: it starts from the initial weights, not from a model trained by FedAvg.
    Communication cost: d_head up, d_head down.
    """

    personalised: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return model.in_head(name)
