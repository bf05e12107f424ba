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
OPTIONAL: dict[str, dict[str, Allowed]] = {
    "adamw": {},
    "sgd": {"weight_decay": WEIGHT_DECAY, "momentum": Allowed(ge=0, lt=1, types=NUMBER)},
}
SCHEDULE = "exponential"  # the default of budgets
# The same of each schedule of the learning rate (bench.train.optim.schedules); every schedule has an optional warm-up.
LR_DECAY, ROUNDS = Allowed(gt=0, le=1, types=NUMBER), Allowed(ge=1, types=NUMBER)
SCHEDULE_DEFAULTS: dict[str, dict[str, Option]] = {
    "constant": {},
    "step": {"lr_decay": Option(0.1, LR_DECAY), "decay_every": Option(10, ROUNDS)},
    "exponential": {},
    "cosine": {"lr_final": Option(0, Allowed(ge=0, le=1, types=NUMBER))},
}
SCHEDULE_OPTIONAL: dict[str, dict[str, Allowed]] = {
    **{schedule: {"warmup": ROUNDS} for schedule in SCHEDULE_DEFAULTS},
    "exponential": {"lr_decay": LR_DECAY, "warmup": ROUNDS},
}


def known(algorithm: str, optimizer: str, schedule: str) -> dict[str, Allowed]:
    """Return the hyper-parameters of an algorithm with this optimiser and schedule, with their allowed values."""
    excluded = registry.flags(algorithm)["excluded"]
    given = {name: each.allowed for name, each in _defaults(algorithm, optimizer, schedule).items()}
    optional = OPTIONAL[optimizer] | SCHEDULE_OPTIONAL[schedule]
    return given | {name: each for name, each in optional.items() if name not in excluded and name not in given}


def _defaults(algorithm: str, optimizer: str, schedule: str) -> dict[str, Option]:
    return {**DEFAULTS[optimizer], **SCHEDULE_DEFAULTS[schedule], **registry.hyperparameters(algorithm)}


def unknown(algorithm: str, optimizer: str, schedule: str, name: str) -> str:
    """Return the message for a hyper-parameter that is not known, with the nearest one that is."""
    of_schedule = "" if schedule == SCHEDULE else f" and schedule {schedule!r}"
    hint = nearest(name, known(algorithm, optimizer, schedule))
    return f"{algorithm} with {optimizer}{of_schedule} has no hyper-parameter {name!r}: {hint}"


def resolve(
    algorithm: str, optimizer: str, hyperparameters: Mapping[str, Any], schedule: str = SCHEDULE
) -> dict[str, float]:
    """Return all hyper-parameters of a run by name: those given, and the defaults of the others.

    Raises :class:`SpecError` for a name that neither the algorithm nor the optimiser nor the schedule knows, with the
    nearest one, and for a value that is not allowed.
    """
    optimizers = registry.flags(algorithm)["optimizers"]
    if optimizer not in optimizers:
        raise SpecError(f"{algorithm} is defined for optimizer {' or '.join(optimizers)}, not {optimizer!r}")
    allowed = known(algorithm, optimizer, schedule)
    for name, value in hyperparameters.items():
        if name not in allowed:
            raise SpecError(unknown(algorithm, optimizer, schedule, name))
        allowed[name].check(f"hyper-parameter {name}", value)
    filled = _defaults(algorithm, optimizer, schedule)
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
