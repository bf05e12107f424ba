"""HeurFedAMP: FedAMP with xi_ii = self_weight and xi_ij in proportion to exp(sigma cos(w_i, w_j)) for j != i."""

from __future__ import annotations

from functools import partial
from math import exp

from torch import Tensor

from . import fedamp

OPTIONS = fedamp.OPTIONS
SETTINGS = [
    {"lr": 0.02, "lam": 1.0, "alpha": 0.5, "alpha_decay": 0.5, "sigma": 5.0, "self_weight": 0.3},
    {"lr": 0.005, "lam": 0.3, "alpha": 0.2, "alpha_decay": 0.1, "sigma": 1.0, "self_weight": 0.0},
]


def attention(vectors: list[Tensor], alpha: float, hyper: dict[str, float]) -> list[list[float]]:
    rows = []
    for i, w_i in enumerate(vectors):
        cosines = [float(w_i @ w_j / (w_i.norm() * w_j.norm())) for w_j in vectors]
        row = [0.0 if j == i else exp(hyper["sigma"] * cosine) for j, cosine in enumerate(cosines)]
        row = [(1 - hyper["self_weight"]) * value / sum(row) for value in row]
        row[i] = hyper["self_weight"]
        rows.append(row)
    return rows


run = partial(fedamp.run, weigh=attention)
