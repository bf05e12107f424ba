"""Claims about searches: chosen values are among those that were tried."""

from __future__ import annotations

import math
from typing import Any

from bench.report.audit.claims import SLACK, ClaimPart, ClaimResult, Printed, every, kind, number_text


@kind
def on_grid(
    printed: Printed,
    chosen: str,
    grid: str,
    each: bool = False,
    factors: dict[str, float] | None = None,
) -> ClaimResult:
    """Check that every chosen value is one of those that were tried.

    ``chosen`` is the path of {case: {key: value}}, ``grid`` that of {key: values}, or of {case: values} if ``each``
    case has its own grid. Grids of keys among ``factors`` are multiplied by them.
    """
    tried = printed.fact(grid)
    parts = []
    for case, values in printed.fact(chosen).items():
        for key, value in values.items():
            options = tried[case if each else key]
            factor = (factors or {}).get(key)
            options = options if factor is None else [option * factor for option in options]
            follows = any(_alike(value, option) for option in options)
            allowed = "of " + ", ".join(map(number_text, options))
            parts.append(ClaimPart(f"{case}, {key}", number_text(value), allowed, follows))
    return every(parts, f"{sum(part.follows for part in parts)} of {len(parts)} chosen values were tried")


@kind
def on_decades(printed: Printed, tuned: str) -> ClaimResult:
    """Check that every best value is in its range, which has steps of a factor of ten.

    ``tuned`` is the path of {case: {method: {key: {range = [first, last], best = value or values}}}}.
    """
    parts = []
    for case, methods in printed.fact(tuned).items():
        for method, entries in methods.items():
            for key, entry in entries.items():
                best = entry["best"] if isinstance(entry["best"], list) else [entry["best"]]
                largest, smallest = sorted(entry["range"], reverse=True)
                tried = [largest / 10**step for step in range(round(math.log10(largest / smallest)) + 1)]
                follows = all(any(_alike(value, option) for option in tried) for value in best)
                text = ", ".join(map(number_text, dict.fromkeys(best)))
                parts.append(
                    ClaimPart(f"{case}, {method}, {key}", text, "of " + ", ".join(map(number_text, tried)), follows)
                )
    return every(parts)


def _alike(value: Any, option: Any) -> bool:
    if isinstance(value, str) or isinstance(option, str):
        return bool(value == option)
    return math.isclose(value, option, rel_tol=SLACK)
