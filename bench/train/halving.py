"""Successive halving (Jamieson & Talwalkar, 2016): rungs, and the settings that are kept after each."""

from __future__ import annotations

import math
from collections.abc import Sequence


def rungs(first: int, rounds: int, reduction: int) -> tuple[int, ...]:
    """Return the numbers of rounds after which settings are dropped: ``first`` times powers of ``reduction``.

    The last rung is ``rounds``, where the remaining settings end.
    """
    found = []
    while first < rounds:
        found.append(first)
        first *= reduction
    return (*found, rounds)


def survivors(losses: Sequence[float], reduction: int) -> list[int]:
    """Return the indices of the 1 / ``reduction`` (rounded up) settings with the lowest losses, in order.

    Of equal losses the first is kept.
    """
    keep = math.ceil(len(losses) / reduction)
    return sorted(sorted(range(len(losses)), key=lambda number: (losses[number], number))[:keep])
