"""FedBN (Li et al., 2021, algorithm 1): federated but for batch-norm."""

from __future__ import annotations

from dataclasses import dataclass

from bench.algorithms.fedavg import FedAvg
from bench.models.functional import Model
from bench.registry import register


@register("fedbn")
@dataclass(frozen=True)
class FedBN(FedAvg):
    """FedAvg of all weights but those of batch-norm layers, which stay with their client.

    Scale, shift and running statistics of every batch-norm layer are personal in training and in evaluation; without
    such layers it is FedAvg. Travels: d - d_bn up, d - d_bn down.
    """

    def shared(self, name: str, model: Model) -> bool:
        return not model.in_batch_norm(name)
