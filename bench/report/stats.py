"""Means with intervals, and rank tests over blocks.

Sources: Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006 (Friedman, Iman-Davenport,
Nemenyi); Conover, "Practical nonparametric statistics", 1999, section 5.8 (the Friedman statistic under ties).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import scipy  # its parts load on first use, which keeps `import bench.report.tables` quick
from numpy.typing import NDArray

from bench.types import SilobenchError


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value, never outside their range."""
    # 7 x 0.1 / 7 can round to just above 0.1; a mean above its maximum would be a lie, however small.
    return min(max(fmean(values), min(values)), max(values))


def t_radius(values: Sequence[float], level: float = 0.95) -> float | None:
    """Radius of the t interval of the mean (n - 1 degrees of freedom); None for fewer than two values."""
    if len(values) < 2:
        return None
    quantile = scipy.stats.t.ppf((1 + level) / 2, len(values) - 1)
    return float(quantile * stdev(values) / math.sqrt(len(values)))


def further_run(radius: float | None, n: int) -> float | None:
    """Radius of the prediction interval for one further value, from the t interval's ``radius`` over ``n`` values."""
    return None if radius is None else radius * math.sqrt(n + 1)


def normal_share(n: int, level: float = 0.95) -> float:
    """The normal interval's radius as a share of the t interval's, over ``n`` values (at least two)."""
    return float(scipy.stats.norm.ppf((1 + level) / 2) / scipy.stats.t.ppf((1 + level) / 2, n - 1))


def normal_radius(values: Sequence[float], level: float = 0.95) -> float | None:
    """Radius of the normal interval of the mean; None for fewer than two values."""
    radius = t_radius(values, level)
    return None if radius is None else radius * normal_share(len(values), level)


@dataclass(frozen=True, eq=False)
class RankReport:
    """Friedman's test over ``blocks`` blocks and what follows it.

    ``average`` (k,) are the methods' mean ranks, 1 is best; ``chi2`` has k - 1 degrees of freedom, ``f`` (Iman and
    Davenport's correction) k - 1 and (k - 1)(blocks - 1). Two methods differ at 0.05 when their mean ranks are more
    than ``critical_difference`` apart; ``pairwise`` (k, k) are Nemenyi's p-values.
    """

    methods: tuple[str, ...]
    blocks: int
    average: NDArray[np.float64]
    chi2: float
    p: float
    f: float
    f_p: float
    critical_difference: float
    pairwise: NDArray[np.float64]


def rank(methods: Sequence[str], values: NDArray[np.float64]) -> RankReport:
    """Rank ``methods`` (k) by ``values`` (blocks, k), higher is better, ties share their mean rank.

    A block is a row: a data set, client or seed on which every method was measured. Raises
    :class:`SilobenchError` for fewer than two blocks or methods, or a value that is not finite.
    """
    if values.ndim != 2 or values.shape[1] != len(methods) or min(values.shape) < 2:
        raise SilobenchError(
            f"rank tests need at least 2 blocks (rows) and 2 methods (columns), one for each of the "
            f"{len(methods)} methods; found a {' x '.join(map(str, values.shape))} array"
        )
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise SilobenchError(f"rank tests need finite values; {methods[column]} in block {row} has none")
    blocks, k = values.shape
    # Equal accuracies summed in another order differ in the last bit; they are ties all the same.
    ranks = scipy.stats.rankdata(-values.round(12), axis=1)
    average = ranks.mean(axis=0)
    spread = float((ranks**2).sum() - blocks * k * (k + 1) ** 2 / 4)
    between = float(((average - (k + 1) / 2) ** 2).sum()) * blocks**2
    chi2 = (k - 1) * between / spread if spread else 0.0
    rest = blocks * (k - 1) - chi2
    f = (blocks - 1) * chi2 / rest if rest > 1e-9 else math.inf
    # Nemenyi compares differences of mean ranks with the range of k normals, hence the square root of two.
    unit = math.sqrt(k * (k + 1) / (6 * blocks)) / math.sqrt(2)
    apart = np.abs(average[:, None] - average[None, :]) / unit
    return RankReport(
        methods=tuple(methods),
        blocks=blocks,
        average=average,
        chi2=chi2,
        p=float(scipy.stats.chi2.sf(chi2, k - 1)),
        f=f,
        f_p=float(scipy.stats.f.sf(f, k - 1, (k - 1) * (blocks - 1))),
        critical_difference=float(scipy.stats.studentized_range.ppf(0.95, k, np.inf)) * unit,
        pairwise=np.clip(scipy.stats.studentized_range.sf(apart, k, np.inf), 0.0, 1.0),
    )
