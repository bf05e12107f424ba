"""FedAdam (Reddi et al., 2021), as FENDA-FL runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bench.algorithms.base import Algorithm, Tree, mean, searchable
from bench.models.requirements import without_running_statistics
from bench.registry import register


@register("fedadam")
@dataclass(frozen=True)
class FedAdam(Algorithm):
    """The server takes an Adam step along the clients' mean change.

    Delta = sum_i (n_i / n) (w_i - x);  m = b1 m + (1 - b1) Delta;  v = b2 v + (1 - b2) Delta^2; x = x + server_lr m /
    (sqrt(v) + tau), elementwise, from m = v = 0, with b1 = 0.9, b2 = 0.99 and tau = 1e-9 (FENDA-FL, section 3). There
    is no bias correction, as in the paper and in Flower 1.4, with which FENDA-FL ran (in FL4Health); Flower 1.13 and
    later correct the bias. Batch-norm: an Adam step can make a variance negative (appendix H), so the layers keep no
    running statistics and always use the batch's.

    Paper: Reddi et al., 2021, algorithm 2, lines m, v (marked FedAdam) and x, whose numbers differ between versions;
    Tavakoli et al., 2023 (FENDA-FL), section 3 and appendix H.
    Variant: clients are weighted by samples and v starts at 0; the paper has an unweighted mean and at least tau^2.
    Communication cost: d up, d down.
    """

    server_lr: Any = searchable(0.1, gt=0, log=(1e-5, 1.0))
    beta1: ClassVar[float] = 0.9
    beta2: ClassVar[float] = 0.99
    tau: ClassVar[float] = 1e-9
    v0: ClassVar[float] = 0.0

    def prepare(self, module: nn.Module) -> nn.Module:
        return without_running_statistics(module)

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w[0], "m": torch.zeros_like(w[0]), "v": torch.full_like(w[0], self.v0)}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        # The mean of differences is exactly 0 for a weight that no client changed; a difference of means is not.
        delta = mean(uploads["w"] - server["w"], weights)
        m = self.beta1 * server["m"] + (1 - self.beta1) * delta
        v = self.second_moment(server["v"], delta)
        return {"w": server["w"] + self.server_lr * m / (torch.sqrt(v) + self.tau), "m": m, "v": v}

    def second_moment(self, v: Tensor, delta: Tensor) -> Tensor:
        """Return v of this round, from the previous round's."""
        return self.beta2 * v + (1 - self.beta2) * delta**2
