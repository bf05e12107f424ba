"""Global Layers (Obeidi, 2023), BatchAlignedFedAvg: inner layers are federated, the others are personal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bench.algorithms.base import Algorithm, Site, Tree, count, searchable, uniform_mean
from bench.models.functional import Model
from bench.registry import register
from bench.types import SpecError, nearest


@register("global_layers")
@dataclass(frozen=True)
class GlobalLayers(Algorithm):
    """Clients share the inner ``layers`` of their models, which may have different features and classes.

    All of (u_k, omega_k, v_k) takes local steps on sum_k F_k(u_k, omega, v_k) (equation 7). Then
    omega = 1/K sum_k omega_k, with equal weights (a_k = 1), and omega_k <- (1 - rate) omega_k + rate omega. The printed
    numbers have rate 1 and one aggregation per epoch, without common initial weights: until the first aggregation every
    client keeps its own omega_k. The number of mini-batches in an epoch is fixed (Budget.batches): local_epochs = 1
    aggregates after every epoch, local_steps = 1 after every batch. The paper's FedAvg shares all layers but the first,
    which is private in the authors' code.

    Paper: Obeidi, 2023, equation 7 and algorithm 1, whose lines have no numbers.
    Variant: a mean; algorithm 1 prints a sum, exchanges rate and 1 - rate, and aggregates after every mini-batch.
    Communication cost: |omega| up, |omega| down.
    """

    personalised: ClassVar[bool] = True
    rate: Any = searchable(1.0, ge=0, le=1)
    layers: tuple[str, ...] = ("layer2", "layer3", "layer4")

    def prepare(self, module: nn.Module) -> nn.Module:
        known = [name for name, _ in module.named_modules() if name]
        for layer in self.layers:
            if layer not in known:
                raise SpecError(f"layers: the model has no layer {layer!r}: {nearest(layer, known)}")
        return module

    def shared(self, name: str, model: Model) -> bool:
        return any(name.startswith(f"{layer}.") for layer in self.layers)

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w[0], "begun": w.new_zeros(())}

    def download(self, server: Tree, client: Tensor) -> Tree:
        return {"w": server["w"], "begun": server["begun"]}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        own = site.share(client["w"])
        mixed = torch.lerp(own, received["w"], self.rate * received["begun"])
        return {**client, "w": site.install(client["w"], mixed)}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        return {"w": uniform_mean(uploads["w"]), "begun": torch.ones_like(server["begun"])}

    def floats(self, message: Tree, site: Site) -> int:
        return count(message["w"])
