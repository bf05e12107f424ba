"""FedProx with fine-tuning, as APPLE compares with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

from bench.algorithms.base import Batch, Site, Tree
from bench.algorithms.fedprox import FedProx
from bench.registry import Allowed, register


@register("fedprox_ft")
@dataclass(frozen=True)
class FedProxFT(FedProx):
    """FedProx in which every client tunes a copy of the global model before it is evaluated, as in FedAvg-FT.

    Local steps minimise F_i(w) + mu/2 ||w - w^t||^2, tuning steps F_i(w) only. Tuning takes ``epochs`` epochs after
    every round or, with every_round = false, only after the last one.

    Paper: Luo & Wu, 2022 (APPLE), section 4.1 and table 1; FedProx is Li et al., 2020, algorithm 2, line 7.
    Variant: the tuned model is evaluated and then discarded.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    epochs: Annotated[int, Allowed(ge=0)] = 1
    every_round: bool = True

    def tuning(self, last: bool) -> int:
        return self.epochs if last or self.every_round else 0

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        return dataclasses.replace(self, mu=0.0).step(client, received, batch, site)
