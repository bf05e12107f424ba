"""Stacked bars of the training samples of each class at each client.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench.report.figures.style import PAGE, STYLE, face, heading, legend_name, name_ticks, plain, save

TURN = 60  # degrees that long names below bars are turned by


def partition(counts: Sequence[Sequence[int]], clients: Sequence[str], stem: Path, *, title: str) -> list[Path]:
    """Draw the classes at each client (APPLE, Figures 5 and 6) to ``stem``.pdf and ``stem``.png.

    ``counts[i][k]`` are client i's samples of class k. In the left panel a bar is a class, stacked from clients; in the
    right panel a bar is a client, stacked from classes.
    """
    by_client = np.array(counts)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PAGE, max(2.6, 0.6 + 0.13 * max(by_client.shape))), layout="constrained")
        left, right = figure.subplots(1, 2)
        classes = [str(k) for k in range(by_client.shape[1])]
        _stacked(left, by_client, classes, list(clients), "class", "client")
        _stacked(right, by_client.T, list(clients), classes, "client", "class")
        heading(figure, title)
        return save(figure, stem)


def _stacked(axes: Axes, parts: NDArray[Any], bars: list[str], names: list[str], along: str, of: str) -> None:
    """Draw bars stacked from ``parts`` (names, bars)."""
    bottom = np.zeros(len(bars))
    for number, (name, part) in enumerate(zip(names, parts, strict=True)):
        axes.bar(range(len(bars)), part, bottom=bottom, linewidth=0.2, label=plain(legend_name(name)), **face(number))
        bottom = bottom + part
    name_ticks(axes, bars, TURN)
    axes.set_xlabel(along)
    axes.set_ylabel("training samples")
    axes.legend(title=of, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.4)
