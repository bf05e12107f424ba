"""Means, medians and their intervals over the runs of one method.

What the papers print after "±" or in parentheses: PLayer-FL the half width of a bootstrapped interval of the median
(:func:`bootstrap`), Global Layers the radius of a normal interval (:func:`normal_radius`), FENDA-FL a radius whose
formula neither its text nor its code gives, so tables show t and normal side by side; APPLE has single runs and prints
none. No interval is ever made of fewer than two values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Literal, NamedTuple

import numpy as np
import scipy  # its parts load on first use, which keeps `import bench.report.tables.build` quick

Bounds = tuple[float, float]
"""The least and the largest possible value of a score."""


def defined(values: Iterable[float | None]) -> list[float]:
    """Return the values that are defined (not None)."""
    return [value for value in values if value is not None]


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of at least one value, weighted if ``weights`` are given; it is never outside their range."""
    # 7 x 0.1 / 7 can round to just above 0.1.
    return min(max(fmean(values, weights), min(values)), max(values))


def sd(values: Sequence[float]) -> float | None:
    """Return the standard deviation with n - 1 in the denominator; None for fewer than two values."""
    return stdev(values) if len(values) > 1 else None


def t_radius(values: Sequence[float], level: float = 0.95) -> float | None:
    """Return the radius of the t interval of the mean (n - 1 degrees of freedom); None for fewer than two values."""
    spread = sd(values)
    if spread is None:
        return None
    quantile = scipy.stats.t.ppf((1 + level) / 2, len(values) - 1)
    return float(quantile * spread / math.sqrt(len(values)))


def further_run(radius: float | None, n: int) -> float | None:
    """Return the radius of the prediction interval for one further value, from a t interval's ``radius`` over ``n``."""
    return None if radius is None else radius * math.sqrt(n + 1)


def within(mean: float, radius: float, bounds: Bounds) -> tuple[float, float]:
    """Return the ends of mean ± radius, cut off at ``bounds``, outside of which no value can lie."""
    low, high = bounds
    return max(mean - radius, min(low, mean)), min(mean + radius, max(high, mean))


def normal_share(n: int, level: float = 0.95) -> float:
    """Return the normal interval's radius as a share of the t interval's, over ``n`` values (at least two)."""
    return float(scipy.stats.norm.ppf((1 + level) / 2) / scipy.stats.t.ppf((1 + level) / 2, n - 1))


def normal_radius(values: Sequence[float], level: float = 0.95) -> float | None:
    """Return the radius of the normal interval of the mean, 1.96 sd / sqrt(n); None for fewer than two values."""
    radius = t_radius(values, level)
    return None if radius is None else radius * normal_share(len(values), level)


class Interval(NamedTuple):
    """An interval that may be asymmetric; its ``radius`` is half its width."""

    low: float
    high: float

    @property
    def radius(self) -> float:
        return (self.high - self.low) / 2


def bootstrap(
    values: Sequence[float],
    of: Literal["mean", "median"] = "mean",
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """Return the percentile bootstrap interval of the mean or the median; None for fewer than two values.

    It depends on the values and the ``seed``, not on the values' order. The defaults of ``level`` and ``resamples``
    are those of PLayer-FL's code, which draws without a seed and prints 0 for fewer than five runs.
    """
    if len(values) < 2:
        return None
    found = scipy.stats.bootstrap(
        (np.sort(values),),
        {"mean": np.mean, "median": np.median}[of],
        confidence_level=level,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    # The mean of equal values can miss them in the last bit.
    low, high = sorted(float(np.clip(end, min(values), max(values))) for end in (found.low, found.high))
    return Interval(low, high)
