"""Successive halving (Jamieson & Talwalkar, 2016): which settings of a run batch go on after a rung."""

from __future__ import annotations

import math
from collections.abc import Sequence


def rungs(first: int, rounds: int, reduction: int) -> tuple[int, ...]:
    """After how many rounds settings are dropped: ``first``, ``reduction`` times as many, and so on to the last."""
    found = []
    while first < rounds:
        found.append(first)
        first *= reduction
    return (*found, rounds)


def survivors(losses: Sequence[float], reduction: int) -> list[int]:
    """The 1 / ``reduction`` (rounded up) of the settings with the lowest losses, in order; ties go to the first."""
    keep = math.ceil(len(losses) / reduction)
    return sorted(sorted(range(len(losses)), key=lambda number: (losses[number], number))[:keep])
