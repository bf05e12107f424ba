"""pFedLA (Ma, Zhang, Guo & Xu, 2022): hypernetworks learn to mix clients' models layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.func import grad

from bench.algorithms.base import Algorithm, Site, Tree, searchable
from bench.models.functional import Model
from bench.registry import Allowed, register
from bench.rng import derive, uniform


def layer_weights(hyper: Tree) -> Tensor:
    """Return alpha (L, C): softmax(W2 relu(W1 v + b1) + b2) over the clients, for each layer."""
    hidden = torch.relu(torch.einsum("lhe,e->lh", hyper["W1"], hyper["v"]) + hyper["b1"])
    return torch.softmax(torch.einsum("lch,lh->lc", hyper["W2"], hidden) + hyper["b2"], dim=1)


def mix(alpha: Tensor, models: Tensor, model: Model) -> Tensor:
    """Return the weights (d,) whose layer l is sum_j alpha_lj times layer l of ``models`` (C, d)."""
    return (model.by_layer(alpha).T * models).sum(0)


@register("pfedla")
@dataclass(frozen=True)
class PFedLA(Algorithm):
    """A hypernetwork per client mixes all clients' models, layer by layer, into the initial weights of local training.

    theta_i^l = sum_j alpha_i^{l,j} theta_j^l (equation 5) with alpha_i = HN_i(v_i; psi_i), and theta_j the model that
    client j trained last. After local training has changed theta_i by Delta, v_i and psi_i take a step hn_lr (d theta_i
    / d v_i)^T Delta (psi_i likewise), in the direction of training. hn_lr = 0 keeps the random weights that the numbers
    of PLayer-FL were made with. Its embedding and hidden sizes are 32 and 64 (FMNIST, EMNIST), 16 and 16 (Heart), else
    64 and 128. The server's state of a client (v_i, psi_i) is in the client's state here, but is not part of the
    communication cost. Batch-norm: Delta counts trained weights only; running statistics are mixed, too.

    Paper: Ma, Zhang, Guo & Xu, 2022, equation 5.
    Variant: HN_i has a hidden layer per layer, as in PLayer-FL's code, in which it received no gradient.
    Communication cost: d up, d down.
    """

    personalised: ClassVar[bool] = True
    hn_lr: Any = searchable(0.01, ge=0, log=(1e-4, 10.0))
    embedding: Annotated[int, Allowed(ge=1)] = 32
    hidden: Annotated[int, Allowed(ge=1)] = 64

    def init_client(self, w: Tensor, site: Site) -> Tree:
        layers, e, h = len(site.model.layers), self.embedding, self.hidden
        shapes = {"v": (e,), "W1": (layers, h, e), "b1": (layers, h), "W2": (layers, site.clients, h),
                  "b2": (layers, site.clients)}  # fmt: skip
        # Uniform draws: v has variance 1; weights and biases are those of a linear layer with this number of inputs.
        bounds = {"v": math.sqrt(3), "W1": e**-0.5, "b1": e**-0.5, "W2": h**-0.5, "b2": h**-0.5}
        draws = {name: uniform(site.key ^ derive("hypernetwork", name), math.prod(shapes[name])) for name in shapes}
        hyper = {name: bounds[name] * (2 * draws[name].view(shapes[name]) - 1) for name in shapes}
        return {**super().init_client(w, site), "hyper": hyper}

    def init_server(self, w: Tensor) -> Tree:
        return {"w": w}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        return {**client, "w": mix(layer_weights(client["hyper"]), received["w"], site.model)}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        began = self.start(client, received, site)["w"]

        def along(hyper: Tree) -> Tensor:
            return (mix(layer_weights(hyper), received["w"], site.model) * site.trained(client["w"] - began)).sum()

        slope = grad(along)(client["hyper"])
        hyper = {name: value + self.hn_lr * slope[name] for name, value in client["hyper"].items()}
        return {**client, "hyper": hyper}, {"w": client["w"]}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        return {"w": uploads["w"]}

    def floats(self, message: Tree, site: Site) -> int:
        return message["w"].shape[-1]
