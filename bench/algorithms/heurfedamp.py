"""HeurFedAMP (Huang et al., 2021): FedAMP for deep networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bench.algorithms.base import searchable
from bench.algorithms.fedamp import FedAMP
from bench.registry import register


@register("heurfedamp")
@dataclass(frozen=True)
class HeurFedAMP(FedAMP):
    """FedAMP with similarities by the angle between weights, and a fixed weight of the client itself.

    xi_ii = self_weight;  xi_ij = (1 - xi_ii) exp(sigma cos(w_i, w_j)) / sum_{h != i} exp(sigma cos(w_i, w_h)).
    With self_weight = 1 a client is regularised towards its own previous weights only.
    Batch-norm: angles are between trained weights only, as in FedAMP.

    Paper: Huang et al., 2021, section "HeurFedAMP: Heuristic Improvement of FedAMP on Deep Neural Networks", in place
    of the weights of equation 5.
    Variant: the client's part is FedAMP's (equation 6).
    Communication cost: d up, d down.
    """

    sigma: Any = searchable(25.0, ge=0, log=(1.0, 1e2))
    self_weight: Any = searchable(0.1, ge=0, le=1)

    def attention(self, models: Tensor, alpha: Tensor) -> Tensor:
        directions = normalize(models, dim=1)
        own = torch.eye(len(models), dtype=torch.bool)
        similar = torch.where(own, -torch.inf, self.sigma * directions @ directions.T)
        return torch.where(own, self.self_weight, (1 - self.self_weight) * torch.softmax(similar, 1))
