"""Rank tests of methods over blocks on which every method was measured.

A block is a data set, a client or a seed; methods are the treatments. Higher is better everywhere: negate losses and
variances first. Missing values are refused.

Sources: Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006 (Friedman, Iman-Davenport,
Nemenyi, Wilcoxon); Conover, "Practical nonparametric statistics", 1999, section 5.8 (the Friedman statistic under
ties); Holm, "A simple sequentially rejective multiple test procedure", 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from bench.types import SilobenchError, nearest


@dataclass(frozen=True, eq=False)
class RankReport:
    """Friedman's test over ``blocks`` blocks with its post-hoc tests.

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

    @property
    def order(self) -> list[int]:
        """Return the numbers of the methods, best first; equal ones keep their order."""
        return [int(i) for i in np.argsort(self.average, kind="stable")]

    @property
    def groups(self) -> list[list[int]]:
        """Return the largest groups of at least two methods, best first, of which no two differ."""
        order, groups, last = self.order, [], 0
        for start, best in enumerate(order):
            within = [i for i in order[start:] if self.average[i] - self.average[best] <= self.critical_difference]
            if len(within) > 1 and start + len(within) > last:
                groups.append(within)
                last = start + len(within)
        return groups


def rank(methods: Sequence[str], values: ArrayLike) -> RankReport:
    """Rank ``methods`` (k) by ``values`` (blocks, k), higher is better, ties share their mean rank.

    Raise :class:`SilobenchError` for fewer than two blocks or methods, and for a value that is missing (None) or
    not finite.
    """
    table = _complete(methods, values)
    blocks, k = table.shape
    ranks = _ranked(table)
    average = ranks.mean(axis=0)
    chi2, p = _friedman(ranks)
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
        p=p,
        f=f,
        f_p=float(scipy.stats.f.sf(f, k - 1, (k - 1) * (blocks - 1))),
        critical_difference=float(scipy.stats.studentized_range.ppf(0.95, k, np.inf)) * unit,
        pairwise=np.clip(scipy.stats.studentized_range.sf(apart, k, np.inf), 0.0, 1.0),
    )


def friedman_as_published(methods: Sequence[str], values: ArrayLike) -> tuple[float, float]:
    """Return Friedman's chi2 and p as PLayer-FL's code computes them, with ``values`` (blocks, k) transposed.

    Data sets are taken for treatments and methods for blocks, so that a small p says that data sets differ in
    difficulty. It serves to recognise the p-values of Tables 1, 2 and A.5-A.12; to compare methods, use :func:`rank`.
    """
    return _friedman(_ranked(_complete(methods, values).T))


@dataclass(frozen=True)
class SignedRank:
    """Result of Wilcoxon's signed-rank test of ``method`` against ``other``.

    ``won`` and ``lost`` count the blocks, the rest are ties; ``p`` is two-sided, ``holm`` the same adjusted for all
    the pairs that were tested together.
    """

    method: str
    other: str
    won: int
    lost: int
    p: float
    holm: float


def signed_ranks(methods: Sequence[str], values: ArrayLike, against: str | None = None) -> list[SignedRank]:
    """Test every pair of ``methods``, or every other one ``against`` a named one, by ``values`` (blocks, k).

    p is exact: every sign of every difference is equally likely. Equal differences share their mean rank, and the
    ranks of equal values count half for either side (Demšar, section 3.1.3). Raise as :func:`rank`, and for an
    unknown ``against``.
    """
    table = _complete(methods, values)
    if against is not None and against not in methods:
        raise SilobenchError(f"no method {against!r} to test against: {nearest(against, methods)}")
    every = permutations(range(len(methods)), 2)
    pairs = [(i, j) for i, j in every if (i < j if against is None else methods[j] == against)]
    # Differences of equal pairs of accuracies differ in the last bit, as sums do; they are ties all the same.
    differences = [(table[:, i] - table[:, j]).round(12) for i, j in pairs]
    p = [_signed_rank(difference) for difference in differences]
    return [
        SignedRank(methods[i], methods[j], int((difference > 0).sum()), int((difference < 0).sum()), each, adjusted)
        for (i, j), difference, each, adjusted in zip(pairs, differences, p, holm(p), strict=True)
    ]


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values: the i-th smallest times (m - i + 1), increasing and at most 1."""
    adjusted, least = [0.0] * len(p), 0.0
    for smaller, place in enumerate(np.argsort(p, kind="stable")):
        least = max(least, min(1.0, p[place] * (len(p) - smaller)))
        adjusted[place] = least
    return adjusted


def _complete(methods: Sequence[str], values: ArrayLike) -> NDArray[np.float64]:
    """Return ``values`` as an array (blocks, k); raise :class:`SilobenchError` for a missing value."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SilobenchError("rank tests need a table of numbers: rows (blocks) of one value for each method") from None
    if table.ndim != 2 or table.shape[1] != len(methods) or min(table.shape) < 2:
        raise SilobenchError(
            f"rank tests need at least 2 blocks (rows) and 2 methods (columns), one for each of the "
            f"{len(methods)} methods; found a {' x '.join(map(str, table.shape))} array"
        )
    holes = np.argwhere(~np.isfinite(table))
    if len(holes):
        row, column = holes[0]
        more = f" (and {len(holes) - 1} more)" if len(holes) > 1 else ""
        raise SilobenchError(
            f"rank tests need every value: {methods[column]} in block {row}{more} has none; "
            f"run what is missing, or leave out the method or the block"
        )
    return table


def _ranked(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks within each row, 1 for the highest value."""
    # Equal accuracies summed in another order differ in the last bit; they are ties all the same.
    return np.asarray(scipy.stats.rankdata(-table.round(12), axis=1))


def _friedman(ranks: NDArray[np.float64]) -> tuple[float, float]:
    """Return Friedman's chi2 and p for treatments (columns) ranked within blocks (rows)."""
    blocks, k = ranks.shape
    spread = float((ranks**2).sum() - blocks * k * (k + 1) ** 2 / 4)
    between = float(((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()) * blocks**2
    chi2 = (k - 1) * between / spread if spread else 0.0
    return chi2, float(scipy.stats.chi2.sf(chi2, k - 1))


def _signed_rank(differences: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the signed-rank statistic over all 2^n signs."""
    # scipy is exact under ties too, but runs through the signs one by one: 2.6 s for 13 blocks.
    doubled = np.rint(2 * scipy.stats.rankdata(np.abs(differences))).astype(int)  # mean ranks are halves
    moving = doubled[differences != 0]
    chance = np.ones(1)  # of each sum of positive ranks
    for step in moving:
        chance = (np.pad(chance, (step, 0)) + np.pad(chance, (0, step))) / 2
    positive = doubled[differences > 0].sum()
    tail = min(positive, moving.sum() - positive)
    return min(1.0, 2 * float(chance[: tail + 1].sum()))
