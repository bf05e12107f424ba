"""How settings are found: all of a grid, or drawn at random, by TPE, or at random with the worse dropped on the way.

Drawing is Optuna's, with a sampler seeded anew for every trial from the search's seed, the method and the trial's
number. What a trial draws so depends on the losses told before and on nothing else, and a search that was cut is
repeated from the records: it asks for the same settings, finds most of them done, and goes on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.spec import Method, RangeSection, Setting
from bench.types import content_hash

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution

# TPE draws at random until it has been told so many losses (Optuna's default).
STARTUP = 10


class Search:
    """The settings of one method, asked for in batches, and the losses told of each (infinite for a diverged run)."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.plan = method.search
        self.drawn: list[Setting] = []
        self._study: Study | None = None
        self._asked: list[Trial] = []

    def ask(self) -> list[Setting]:
        """The settings to try next; empty when all have been."""
        if self.plan.kind == "grid" or not self.method.axes:
            return [] if self.drawn else self._remember(list(self.method.grid))
        trials = self.plan.trials or 0
        batch = min(self.plan.batch if self.plan.kind == "tpe" else trials, trials - len(self.drawn))
        return self._remember([self._draw(len(self.drawn) + i) for i in range(batch)])

    def tell(self, losses: Sequence[float]) -> None:
        """The loss of each setting asked for last."""
        for trial, loss in zip(self._asked, losses, strict=False):
            # Optuna knows no infinite loss; whatever diverged is as bad as can be.
            self._optuna().tell(trial, loss if math.isfinite(loss) else 1e30)
        self._asked = []

    def _remember(self, settings: list[Setting]) -> list[Setting]:
        self.drawn += settings
        return settings

    def _draw(self, number: int) -> Setting:
        from optuna.samplers import RandomSampler, TPESampler

        identity = {"seed": self.plan.seed, "method": self.method.name, "trial": number}
        seed = int(content_hash(identity), 16) % 2**32
        study = self._optuna()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant_liar is marked experimental
            study.sampler = (
                TPESampler(seed=seed, n_startup_trials=STARTUP, constant_liar=True)
                if self.plan.kind == "tpe"
                else RandomSampler(seed=seed)
            )
            trial = study.ask(distributions(self.method))
        self._asked.append(trial)
        return {**self.method.fixed, **values(self.method, trial.params)}

    def _optuna(self) -> Study:
        if self._study is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
            self._study = optuna.create_study(direction="minimize")
        return self._study


def distributions(method: Method) -> dict[str, BaseDistribution]:
    """Optuna's word for each axis of a method; of listed values the position in the list is drawn."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    made: dict[str, BaseDistribution] = {}
    for name, axis in method.axes.items():
        if not isinstance(axis, RangeSection):
            made[name] = CategoricalDistribution(range(len(axis)))
        elif axis.whole:
            made[name] = IntDistribution(int(axis.low), int(axis.high), log=axis.log)
        else:
            made[name] = FloatDistribution(axis.low, axis.high, log=axis.log)
    return made


def values(method: Method, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The setting that Optuna's parameters stand for."""
    axes = method.axes
    return {name: axis[drawn[name]] if isinstance(axis, tuple) else drawn[name] for name, axis in axes.items()}
