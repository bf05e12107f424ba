"""Intervals as figures draw them: cut off where no value can lie, such as above 1 for a share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from bench.report.statistics import Bounds, within


def span(mean: float, radius: float | None, bounds: Bounds) -> tuple[float, float]:
    """Return the ends of an interval within ``bounds``; without a radius, both are the mean."""
    return within(mean, radius or 0.0, bounds)


def band(means: Sequence[float], radii: Sequence[float | None], bounds: Bounds) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of several intervals within ``bounds``."""
    ends = [span(mean, radius, bounds) for mean, radius in zip(means, radii, strict=True)]
    return [low for low, _ in ends], [high for _, high in ends]


def error_bar(axes: Axes, x: float, mean: float, radius: float | None, bounds: Bounds, **style: Any) -> None:
    """Draw a mean with its interval within ``bounds``."""
    low, high = span(mean, radius, bounds)
    axes.errorbar(x, mean, [[mean - low], [high - mean]], **style)
