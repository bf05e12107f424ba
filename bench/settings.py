"""Hyper-parameters of a run: known names, allowed values and defaults, of the optimiser and of the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import registry
from bench.registry import Allowed, Option
from bench.types import SpecError, nearest

NUMBER = ("number",)
LR = Allowed(gt=0, types=NUMBER)
WEIGHT_DECAY = Allowed(ge=0, types=NUMBER)
# Every run has these hyper-parameters; it has those in OPTIONAL only if they are given.
DEFAULTS: dict[str, dict[str, Option]] = {
    "adamw": {"lr": Option(1e-3, LR), "weight_decay": Option(1e-2, WEIGHT_DECAY)},
    "sgd": {"lr": Option(1e-2, LR)},
}
# lr_decay multiplies the learning rate after every round: lr lr_decay^round, rounds counted from 0.
LR_DECAY = Allowed(gt=0, le=1, types=NUMBER)
OPTIONAL: dict[str, dict[str, Allowed]] = {
    "adamw": {"lr_decay": LR_DECAY},
    "sgd": {"lr_decay": LR_DECAY, "weight_decay": WEIGHT_DECAY, "momentum": Allowed(ge=0, lt=1, types=NUMBER)},
}


def known(algorithm: str, optimizer: str) -> dict[str, Allowed]:
    """Return the hyper-parameters of an algorithm with this optimiser, with their allowed values."""
    excluded = registry.flags(algorithm)["excluded"]
    given = {name: each.allowed for name, each in DEFAULTS[optimizer].items()}
    optional = {name: each for name, each in OPTIONAL[optimizer].items() if name not in excluded}
    own = {name: each.allowed for name, each in registry.hyperparameters(algorithm).items()}
    return {**given, **optional, **own}


def resolve(algorithm: str, optimizer: str, hyperparameters: Mapping[str, Any]) -> dict[str, float]:
    """Return all hyper-parameters of a run by name: those given, and the defaults of the others.

    Raises :class:`SpecError` for a name that neither the algorithm nor the optimiser knows, with the nearest one, and
    for a value that is not allowed.
    """
    optimizers = registry.flags(algorithm)["optimizers"]
    if optimizer not in optimizers:
        raise SpecError(f"{algorithm} is defined for optimizer {' or '.join(optimizers)}, not {optimizer!r}")
    allowed = known(algorithm, optimizer)
    for name, value in hyperparameters.items():
        if name not in allowed:
            raise SpecError(f"{algorithm} with {optimizer} has no hyper-parameter {name!r}: {nearest(name, allowed)}")
        allowed[name].check(f"hyper-parameter {name}", value)
    filled = {**DEFAULTS[optimizer], **registry.hyperparameters(algorithm)}
    numbers = {**{name: each.default for name, each in filled.items()}, **hyperparameters}
    return {name: float(value) for name, value in sorted(numbers.items())}


def fitting(algorithm: str, model: str) -> str:
    """Return the model's name, or the name of its family's parallel form where the algorithm needs one.

    Raises :class:`SpecError` if the family has no parallel form.
    """
    if not registry.flags(algorithm)["parallel"] or model.startswith("parallel_"):
        return model
    known = registry.catalogue("models")
    registry.find("models", model)
    if f"parallel_{model}" not in known:
        families = ", ".join(name.removeprefix("parallel_") for name in known if name.startswith("parallel_"))
        what = f"{algorithm} needs a model with two extractors, and the family {model!r} has none"
        raise SpecError(f"{what}; families that have: {families}")
    return f"parallel_{model}"
