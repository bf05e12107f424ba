"""Searches for settings: a full grid, random draws, TPE, or random draws with successive halving.

Optuna draws the settings. Its sampler gets a new seed for every trial, derived from the seed of the search, the name
of the method and the number of the trial. A draw therefore depends on the earlier losses only, and an interrupted
search is repeated from the records: it asks for the same settings, finds most of them finished, and continues.
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

# Number of trials that TPE draws at random before it uses their losses (Optuna's default).
STARTUP_TRIALS = 10
DIVERGED = 1e30  # the loss reported to Optuna for a diverged run: Optuna accepts no infinite loss


class Search:
    """The search of one method: it asks for settings in batches and is told their losses (infinite if diverged)."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.plan = method.search
        self.drawn: list[Setting] = []
        self._study: Study | None = None
        self._asked: list[Trial] = []

    def ask(self) -> list[Setting]:
        """Return the settings to try next; an empty list at the end of the search."""
        if self.plan.kind == "grid" or not self.method.axes:
            return [] if self.drawn else self._remember(list(self.method.grid))
        trials = self.plan.trials or 0
        batch = min(self.plan.batch if self.plan.kind == "tpe" else trials, trials - len(self.drawn))
        return self._remember([self._draw(len(self.drawn) + i) for i in range(batch)])

    def tell(self, losses: Sequence[float]) -> None:
        """Report the loss of each setting of the last batch."""
        for trial, loss in zip(self._asked, losses, strict=False):
            self._optuna().tell(trial, loss if math.isfinite(loss) else DIVERGED)
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
            warnings.simplefilter("ignore")  # Optuna marks constant_liar as experimental
            study.sampler = (
                TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True)
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
    """Return Optuna's distribution for each axis of a method; for listed values, the index in the list is drawn."""
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
    """Return the setting for parameters drawn by Optuna."""
    axes = method.axes
    return {name: axis[drawn[name]] if isinstance(axis, tuple) else drawn[name] for name, axis in axes.items()}
