"""FedBN (Li et al., 2021): batch-norm layers are not federated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.algorithms.fedavg import FedAvg
from bench.models.functional import Model
from bench.registry import register


@register("fedbn")
@dataclass(frozen=True)
class FedBN(FedAvg):
    """FedAvg of all weights except those of batch-norm layers, which stay with their client.

    w_l = sum_i (n_i / n) w_l,i for every layer l except batch-norm. Scale, shift and running statistics of batch-norm
    layers are personal, in training and in evaluation. Without such layers it is FedAvg.

    Paper: Li et al., 2021, section 4 and the algorithm in appendix C, whose equations have no numbers.
    Variant: running statistics are personal, too; the mean is FedAvg's.
    Communication cost: d - d_bn up, d - d_bn down.
    """

    personalised: ClassVar[bool] = True

    def shared(self, name: str, model: Model) -> bool:
        return not model.in_batch_norm(name)
