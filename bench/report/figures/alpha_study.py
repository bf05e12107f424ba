"""The score of APFL against its learning rate for alpha.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.report import statistics
from bench.report.figures.intervals import band
from bench.report.figures.style import BLUE, COLUMN, DIAMOND, STYLE, heading, key, save, worded, write_reason
from bench.report.scores import bounds
from bench.types import SilobenchError


def alpha_study(
    runs: Mapping[float, Sequence[float | None]],
    stem: Path,
    *,
    title: str,
    metric: str,
    printed: Mapping[float, float] | None = None,
) -> list[Path]:
    """Draw the metric against APFL's learning rate for alpha (FENDA-FL, Figure 4) to ``stem``.pdf and ``stem``.png.

    ``runs`` maps a learning rate to one value per run, None for a run without one. A rate with such a run shows their
    number instead of a point. Line and band are mean and 95 % t interval; ``printed`` means are hollow diamonds. Raise
    :class:`SilobenchError` if no rate has all its values.
    """
    defined = {rate: statistics.defined(values) for rate, values in sorted(runs.items())}
    whole = {rate: values for rate, values in defined.items() if values and len(values) == len(runs[rate])}
    if not whole:
        raise SilobenchError(f"figure {title}: no learning rate for alpha has all its runs; run the missing ones first")
    means = [statistics.mean(values) for values in whole.values()]
    radii = [statistics.t_radius(values) for values in whole.values()]
    low, high = band(means, radii, bounds(metric))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(COLUMN, 2.4), layout="constrained")
        axes = figure.subplots()
        axes.fill_between(list(whole), low, high, color=BLUE, alpha=0.2, lw=0, label="95 % t interval")
        axes.plot(list(whole), means, "o-", color=BLUE, ms=3, lw=1, label="ours")
        if printed:
            axes.plot(list(printed), list(printed.values()), ls="", label="printed", **DIAMOND)
        for rate in sorted(set(runs) - set(whole)):
            write_reason(axes, rate, f"{len(runs[rate]) - len(defined[rate])}/{len(runs[rate])} without a value")
        axes.set_xscale("log")
        axes.set_xticks(sorted(runs))
        axes.minorticks_off()
        heading(figure, title)
        axes.set(xlabel="learning rate of α", ylabel=worded(metric))
        key(figure, axes.get_legend_handles_labels()[0])
        return save(figure, stem)
