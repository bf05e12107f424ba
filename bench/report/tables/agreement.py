"""Counts of agreement between printed results and ours: cells, conclusions, and the order of methods.

The functions take plain numbers; higher is better. A missing radius (None) counts as 0 where a cell is compared with
its printed number. Where two methods are compared, a missing radius means that neither beats the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import permutations
from typing import NamedTuple

import scipy

# Sums of decimals such as 0.72 + 0.03 miss their value in the last bit. On the border a cell agrees and beats none.
BORDER = 1e-12

Conclusion = tuple[str, str]
"""The first method beats the second."""


class Held(NamedTuple):
    """``hold`` cases out of ``of`` hold."""

    hold: int
    of: int


class RankCorrelation(NamedTuple):
    """Spearman's rho and Kendall's tau-b of two orders of ``methods`` methods; 1 means the same order."""

    spearman: float
    kendall: float
    methods: int


def agrees(ours: float, radius: float | None, printed: float, printed_radius: float | None) -> bool:
    """Return whether the distance of the means is at most the sum of both radii."""
    return abs(ours - printed) <= (radius or 0.0) + (printed_radius or 0.0) + BORDER


def within(cells: Iterable[tuple[float | None, float | None, float, float | None]]) -> Held:
    """Count the cells (ours, radius, printed, printed radius) that agree; a cell without a number does not."""
    verdicts = [
        ours is not None and agrees(ours, radius, printed, printed_radius)
        for ours, radius, printed, printed_radius in cells
    ]
    return Held(sum(verdicts), len(verdicts))


def beats(mean: float | None, radius: float | None, other: float | None, other_radius: float | None) -> bool:
    """Return whether mean - radius > other + other radius (asterisks of FENDA-FL, Tables 2 to 4)."""
    if mean is None or radius is None or other is None or other_radius is None:
        return False
    return mean - radius > other + other_radius + BORDER


def conclusions(
    means: Mapping[str, float], radii: Mapping[str, float | None] | None = None, over: str | None = None
) -> set[Conclusion]:
    """Return every (A, B) where method A beats method B: by the mean alone, or with ``radii`` by :func:`beats`.

    With ``over``, return only those about that method, e.g. Silo. Equal means give no conclusion.
    """
    return {
        (a, b)
        for a, b in permutations(means, 2)
        if over in (None, b)
        if (means[a] > means[b] if radii is None else beats(means[a], radii[a], means[b], radii[b]))
    }


def held(printed: Set[Conclusion], ours: Set[Conclusion]) -> Held:
    """Count the printed conclusions that ours support too."""
    return Held(len(printed & ours), len(printed))


def rank_correlation(ours: Mapping[str, float], printed: Mapping[str, float]) -> RankCorrelation | None:
    """Return the correlation of two orders of the methods in both; None for fewer than three, or for all ties."""
    both = [method for method in printed if method in ours]
    left, right = [ours[method] for method in both], [printed[method] for method in both]
    if len(both) < 3 or len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return RankCorrelation(
        float(scipy.stats.spearmanr(left, right).statistic),
        float(scipy.stats.kendalltau(left, right).statistic),
        len(both),
    )
