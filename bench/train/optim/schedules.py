"""Schedules of the learning rate: lr_r = lr f(r) in round r, counted from 0, of R rounds.

    constant      f(r) = 1
    step          f(r) = lr_decay^floor(r / decay_every)
    exponential   f(r) = lr_decay^r
    cosine        f(r) = lr_final + (1 - lr_final) (1 + cos(pi r / R)) / 2    (Loshchilov & Hutter, 2017, no restarts)

With ``warmup`` = W, f(r) is multiplied by min(1, (r + 1) / W): a linear warm-up of W rounds (Goyal et al., 2017). The
options are hyper-parameters of the run; without its option, "exponential" or the warm-up changes nothing. A learning
rate is the same in all local steps of a round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

OPTIONS = ("lr_decay", "decay_every", "lr_final", "warmup")


def scheduled(lr: Any, schedule: str, options: Mapping[str, Tensor], round_: Tensor, rounds: int) -> Any:
    """Return the learning rate in a round; ``options`` are those of the run, by name."""
    if schedule == "cosine":
        final = options["lr_final"]
        lr = lr * (final + (1 - final) * (1 + torch.cos(math.pi * round_ / rounds)) / 2)
    elif "lr_decay" in options:
        lr = lr * options["lr_decay"] ** (round_ // options["decay_every"] if schedule == "step" else round_)
    return lr * torch.clamp((round_ + 1) / options["warmup"], max=1.0) if "warmup" in options else lr
