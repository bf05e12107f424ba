"""Line plots: learning curves, traced quantities round by round, and numbers layer by layer.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bench.report import statistics
from bench.report.figures.intervals import band
from bench.report.figures.style import (
    COLOURS,
    COLUMN,
    GREY,
    PAGE,
    STYLE,
    heading,
    height_of,
    key,
    legend_name,
    name_ticks,
    plain,
    save,
    worded,
)
from bench.report.scores import bounds
from bench.report.statistics import Bounds
from bench.types import SilobenchError

DASHES = ("-", "--", ":", "-.")  # after seven lines their colours come again, dashed
TURN = 45  # degrees that long names of layers are turned by
Runs = Sequence[Sequence[float | None]]  # of each run, a value after each of the rounds
Traced = Sequence[Sequence[float | Sequence[float]]]  # after each round, of each client a number or a list


def curves(panels: Mapping[str, Mapping[str, tuple[Sequence[int], Runs]]], stem: Path, *, title: str) -> list[Path]:
    """Draw learning curves (APPLE, Figures 2 and 7), a panel for each score, to ``stem``.pdf and ``stem``.png.

    ``panels[score][method]`` are the rounds and, for each run, the values after them. Lines are means over runs, bands
    95 % t intervals. A method without runs appears in the legend only. Raise :class:`SilobenchError` if no method has
    a run.
    """
    if not any(runs for lines in panels.values() for _, runs in lines.values()):
        raise SilobenchError(f"figure {title}: no method has all its runs; run the missing ones first")
    with mpl.rc_context(STYLE):
        figure, axes = _panels(len(panels), title)
        for each, (score, lines) in zip(axes, panels.items(), strict=True):
            for number, (method, (rounds, runs)) in enumerate(lines.items()):
                _curve(each, number, method, rounds, runs, bounds("loss" if score.endswith("loss") else score))
            each.set(xlabel="round", ylabel=worded(score))
            _whole_rounds(each)
        several = any(len(runs) > 1 for lines in panels.values() for _, runs in lines.values())
        _key(figure, axes[0], *[Patch(color=GREY, alpha=0.3, lw=0, label="95 % t interval")] * several)
        return save(figure, stem)


def trajectories(
    traced: Traced, clients: Sequence[str], stem: Path, *, title: str, what: str, client: int = 0
) -> list[Path]:
    """Draw a traced quantity of every client after each round to ``stem``.pdf and ``stem``.png.

    If the quantity is a list with an entry for each client (APPLE's directed relationships, Figures 3 and 8), the left
    panel shows the entries of client number ``client``, the right panel each client's entry for itself. Raise
    :class:`SilobenchError` for lists of another length and for an unknown client.
    """
    if not 0 <= client < len(clients):
        raise SilobenchError(f"figure {title}: client = {client}: expected 0 to {len(clients) - 1}")
    single = not isinstance(traced[0][0], Sequence)
    if single:
        panels = {f"{what} of every client": [[_number(of[i]) for of in traced] for i in range(len(clients))]}
    else:
        vectors = [[_vector(title, each, clients) for each in of] for of in traced]
        panels = {
            f"{what} of {clients[client]} for every client": [
                [of[client][j] for of in vectors] for j in range(len(clients))
            ],
            f"{what} of every client for itself": [[of[i][i] for of in vectors] for i in range(len(clients))],
        }
    rounds = range(1, len(traced) + 1)
    with mpl.rc_context(STYLE):
        figure, axes = _panels(len(panels), title)
        for each, (label, lines) in zip(axes, panels.items(), strict=True):
            for number, line in enumerate(lines):
                each.plot(rounds, line, label=legend_name(clients[number]), **_style(number))
            each.set(xlabel="round", ylabel=plain(label))
            _whole_rounds(each)
        _key(figure, axes[0])
        return save(figure, stem)


def layers(
    panels: Mapping[str, Sequence[Sequence[float]]],
    clients: Sequence[str],
    stem: Path,
    *,
    title: str,
    names: Sequence[str] = (),
    log: bool = False,
) -> list[Path]:
    """Draw a number of each layer, a line for each client (PLayer-FL, Figures 1 to 4), to ``stem``.pdf and .png.

    ``panels[what][client]`` are the values by layer; ``names`` are the names of the layers. Raise
    :class:`SilobenchError` for another number of names.
    """
    count = len(next(iter(panels.values()))[0])
    if names and len(names) != count:
        raise SilobenchError(f"figure {title}: {len(names)} names for {count} layers; give one for each")
    shown = list(names) or [str(number) for number in range(1, count + 1)]
    with mpl.rc_context(STYLE):
        figure, axes = _panels(len(panels), title, height_of(shown, TURN))
        for each, (what, lines) in zip(axes, panels.items(), strict=True):
            for number, line in enumerate(lines):
                label = clients[number] if any(map(math.isfinite, line)) else f"{clients[number]}: undefined"
                each.plot(range(count), line, marker="o", ms=2.5, label=legend_name(label), **_style(number))
            if log:
                each.set_yscale("log")
            name_ticks(each, shown, TURN)
            each.set(xlabel="layer", ylabel=worded(what))
        _key(figure, axes[0])
        return save(figure, stem)


def _panels(count: int, title: str, names: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels in rows of two; ``names`` are the inches for tick labels below each."""
    columns = min(count, 2)
    rows = math.ceil(count / columns)
    width, height = (COLUMN if count == 1 else PAGE), 0.6 + rows * (2.0 + names)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    heading(figure, title)
    return figure, axes[:count]


def _key(figure: Figure, axes: Axes, *others: Patch) -> None:
    """Put one legend for the lines of all panels below them."""
    key(figure, [*axes.get_legend_handles_labels()[0], *others], handle=2.2)


def _style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "ls": DASHES[number // len(COLOURS) % len(DASHES)], "lw": 1}


def _curve(axes: Axes, number: int, method: str, rounds: Sequence[int], runs: Runs, limits: Bounds) -> None:
    style = _style(number)
    if not runs:
        axes.plot([], [], label=legend_name(f"{method} (runs are missing)"), **style)
        return
    points = [statistics.defined(values) for values in zip(*runs, strict=True)]
    whole = [(round_, values) for round_, values in zip(rounds, points, strict=True) if len(values) == len(runs)]
    over = [round_ for round_, _ in whole]
    means = [statistics.mean(values) for _, values in whole]
    radii = [statistics.t_radius(values) for _, values in whole]
    axes.plot(over, means, label=legend_name(method), marker="o" if len(over) == 1 else None, ms=2.5, **style)
    axes.fill_between(over, *band(means, radii, limits), color=style["color"], alpha=0.15, lw=0)


def _whole_rounds(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def _vector(title: str, value: float | Sequence[float], clients: Sequence[str]) -> Sequence[float]:
    if not isinstance(value, Sequence) or len(value) != len(clients):
        raise SilobenchError(f"figure {title}: expected a list with an entry for each of {len(clients)} clients")
    return value


def _number(value: float | Sequence[float]) -> float:
    assert not isinstance(value, Sequence)
    return value
