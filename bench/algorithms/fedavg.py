"""FedAvg (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from bench.algorithms.base import Algorithm
from bench.registry import register


@register("fedavg")
@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Clients train the global model; the server takes the mean of their weights, weighted by samples.

    w^{t+1} = sum_i (n_i / n) w_i, over all weights and batch-norm running statistics. Every client's personal model is
    the global one. Optimiser state stays with its client over rounds.

    Paper: McMahan et al., 2017, algorithm 1; the mean is the last line of the server's loop and has no number.
    Variant: all clients take part in every round.
    Communication cost: d floats up, d down.
    """
