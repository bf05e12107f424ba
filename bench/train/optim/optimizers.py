"""The clients' optimisers as functions of a weight vector, equal to ``torch.optim`` step by step.

Learning rate, weight decay and momentum may be tensors of the run. ``decays`` (d,) is 1 for weights with weight decay
and 0 for weights that are not trained; None applies weight decay to all weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.native import adamw

Number = float | Tensor


@dataclass(frozen=True)
class AdamW:
    """AdamW (Loshchilov & Hutter, 2018) with betas (0.9, 0.999) and epsilon 1e-8, torch's defaults."""

    lr: Number = 1e-3
    weight_decay: Number = 1e-2
    decays: Tensor | None = None

    def init(self, w: Tensor) -> dict[str, Any]:
        return {"m": torch.zeros_like(w), "v": torch.zeros_like(w), "t": torch.zeros((), device=w.device)}

    def step(self, w: Tensor, gradient: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        t = state["t"] + 1
        decay = self.lr * self.weight_decay
        keep = torch.as_tensor(1 - (decay if self.decays is None else decay * self.decays))
        # lr m / (1 - 0.9^t) / (sqrt(v / (1 - 0.999^t)) + eps), with the scalars combined first.
        correction = torch.sqrt(_one_minus_power(0.999, t))
        scale = self.lr * correction / _one_minus_power(0.9, t)
        w, m, v = adamw.update(w, gradient, state["m"], state["v"], keep, scale, 1e-8 * correction)
        return w, {"m": m, "v": v, "t": t}


def _one_minus_power(beta: float, t: Tensor) -> Tensor:
    """Return 1 - beta^t; computed as written, float32 would round it to five digits."""
    return -torch.expm1(math.log(beta) * t)


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent; with ``momentum`` None the state holds no velocity."""

    lr: Number = 1e-2
    weight_decay: Number | None = None
    momentum: Number | None = None
    decays: Tensor | None = None

    def init(self, w: Tensor) -> dict[str, Any]:
        return {} if self.momentum is None else {"velocity": torch.zeros_like(w)}

    def step(self, w: Tensor, gradient: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        if self.weight_decay is not None:
            gradient = gradient + self.weight_decay * (w if self.decays is None else w * self.decays)
        if self.momentum is None:
            return w - self.lr * gradient, state
        velocity = self.momentum * state["velocity"] + gradient
        return w - self.lr * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Restarted:
    """An optimiser whose state is zero at the step where ``first`` (a boolean tensor) is true: the first of a round."""

    optimizer: AdamW | SGD
    first: Tensor

    @property
    def lr(self) -> Number:
        return self.optimizer.lr

    def init(self, w: Tensor) -> dict[str, Any]:
        return self.optimizer.init(w)

    def step(self, w: Tensor, gradient: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        kept = {name: torch.where(self.first, torch.zeros_like(value), value) for name, value in state.items()}
        return self.optimizer.step(w, gradient, kept)


OPTIMIZERS: dict[str, type[AdamW] | type[SGD]] = {"adamw": AdamW, "sgd": SGD}
