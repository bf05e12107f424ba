"""A run's numbers with every default filled in, read from the source files: needs neither torch nor the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench import registry
from bench.types import SpecError, nearest

DEFAULTS: dict[str, dict[str, float]] = {"adamw": {"lr": 1e-3, "weight_decay": 1e-2}, "sgd": {"lr": 1e-2}}
# lr_decay multiplies the learning rate once a round: lr lr_decay^round, rounds counted from 0.
OPTIONAL: dict[str, tuple[str, ...]] = {"adamw": ("lr_decay",), "sgd": ("lr_decay", "weight_decay", "momentum")}


def known(algorithm: str, optimizer: str) -> list[str]:
    """The hyper-parameters that the algorithm with this optimiser takes."""
    optional = [name for name in OPTIONAL[optimizer] if name not in registry.declared(algorithm)["excluded"]]
    return [*DEFAULTS[optimizer], *optional, *registry.hyperparameters(algorithm)]


def resolve(algorithm: str, optimizer: str, hyperparameters: Mapping[str, Any]) -> dict[str, float]:
    """All per-run numbers of a run: those given and the defaults of the others, by name in alphabetical order.

    Raises :class:`SpecError` for a name that neither the algorithm nor the optimiser knows, with the nearest one.
    """
    optimizers = registry.declared(algorithm)["optimizers"]
    if optimizer not in optimizers:
        raise SpecError(f"{algorithm} is defined for optimizer {' or '.join(optimizers)}, not {optimizer!r}")
    allowed = known(algorithm, optimizer)
    for name, value in hyperparameters.items():
        if name not in allowed:
            raise SpecError(f"{algorithm} with {optimizer} has no hyper-parameter {name!r}: {nearest(name, allowed)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SpecError(f"hyper-parameter {name} = {value!r}: expected a finite number")
    filled = {**DEFAULTS[optimizer], **registry.hyperparameter_defaults(algorithm), **hyperparameters}
    return {name: float(value) for name, value in sorted(filled.items())}


def fitting(algorithm: str, model: str) -> str:
    """The model's name, or that of its family's parallel form where the algorithm needs one."""
    parallel = registry.declared(algorithm)["parallel"]
    return f"parallel_{model}" if parallel and not model.startswith("parallel_") else model
