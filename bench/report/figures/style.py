"""Sizes, colours, titles, tick labels and legends that all figures share.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.files import write_whole
from bench.safe_text import without_unprintable

# Okabe and Ito, "Color Universal Design", 2008: distinct with every common form of colour blindness.
BLUE, ORANGE, GREY, PALE, BLACK = "#0072B2", "#E69F00", "#888888", "#BBBBBB", "#000000"
# Theirs without yellow, which is too pale for a line.
COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", ORANGE, "#56B4E9", BLACK)
# As in FENDA-FL's Figures 6 and 7: solid for the server's checkpoint, hatched for local ones.
HATCHES = {"latest": "....", "global": "", "local": "/////", "best-test (oracle)": "xxxx", "best-val": "\\\\\\\\\\"}
COLUMN, PAGE = 3.4, 7.0  # inches
LINE, LETTER = 0.15, 0.055  # inches that a further line and a further letter take
STYLE: dict[Any, Any] = {
    "font.size": 7,
    "axes.titlesize": 7,
    "figure.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}
DIAMOND: dict[str, Any] = {"marker": "D", "mfc": "white", "mec": BLACK, "ms": 3, "mew": 0.7, "lw": 0.7, "color": BLACK}


def face(number: int) -> dict[str, Any]:
    """Return the fill of bar ``number``: a colour, with a hatch once all colours are used."""
    hatches = ("", *(each for each in HATCHES.values() if each))
    hatch = hatches[number // len(COLOURS) % len(hatches)]
    return {"facecolor": COLOURS[number % len(COLOURS)], "edgecolor": "white", "hatch": hatch}


def plain(text: str) -> str:
    """Return ``text`` so that matplotlib shows its dollar signs; between two of them it would show mathematics.

    Unprintable characters, which fonts do not have, become spaces. Every text with a name in it must go through this
    function or through one below.
    """
    return without_unprintable(text).replace("$", r"\$")


def legend_name(name: str) -> str:
    """Return ``name`` as the label of a line or bar; matplotlib leaves labels with an underscore in front out."""
    return f" {name}" if name.startswith("_") else name


def worded(name: str) -> str:
    """Return the name of a metric or a trace as words."""
    return plain(name.replace("_", " "))


def wrapped(title: str, width: float) -> str:
    """Return ``title`` in as few lines of equal length as fit into ``width`` inches, less half an inch for the axis."""
    characters_per_inch = 14

    def broken(letters: int) -> str:
        return textwrap.fill(title, letters, break_on_hyphens=False)

    most = int((width - 0.5) * characters_per_inch)
    lines = broken(most).count("\n")
    return plain(broken(next(letters for letters in range(1, most + 1) if broken(letters).count("\n") <= lines)))


def heading(figure: Figure, title: str) -> None:
    """Put ``title`` above all panels; the figure grows by its lines beyond the first."""
    text = wrapped(title, figure.get_figwidth())
    figure.suptitle(text)
    figure.set_figheight(figure.get_figheight() + LINE * text.count("\n"))


def key(figure: Figure, entries: Sequence[Artist], *, handle: float = 1.4) -> None:
    """Put one legend below all panels, in as many columns as fit; the figure grows by its rows beyond the first.

    ``handle`` is the length of a sample of line or bar, in letters.
    """
    labels = [str(entry.get_label()) for entry in entries]
    longest = max(map(len, labels))
    columns = min(len(entries), max(1, int(figure.get_figwidth() / (0.45 + LETTER * longest))))
    shown = [plain(label) for label in labels]
    figure.legend(entries, shown, ncols=columns, loc="outside lower center", handlelength=handle)
    figure.set_figheight(figure.get_figheight() + LINE * (math.ceil(len(entries) / columns) - 1))


def name_ticks(axes: Axes, names: Sequence[str], angle: float, *, mathematics: bool = False) -> None:
    """Label the ticks 0, 1, 2 ... of the horizontal axis; long names are turned by ``angle`` and end at their tick.

    With ``mathematics``, the names are texts of matplotlib in which names from outside went through :func:`plain`.
    """
    axes.set_xticks(range(len(names)), list(names) if mathematics else [plain(name) for name in names])
    if _long(names):
        for label in axes.get_xticklabels():
            label.set(rotation=angle, ha="right", rotation_mode="anchor")


def height_of(names: Sequence[str], angle: float) -> float:
    """Return the inches that :func:`name_ticks` needs beyond those of a short name."""
    return LETTER * max(map(len, names)) * math.sin(math.radians(angle)) if _long(names) else 0.0


def _long(names: Sequence[str]) -> bool:
    return max(map(len, names)) > 3


def write_reason(axes: Axes, x: float, reason: str, size: float = 5) -> None:
    """Write the reason for a missing number at the place of its bar or point."""
    middle = axes.get_xaxis_transform()
    axes.text(x, 0.02, plain(reason), transform=middle, ha="center", va="bottom", rotation=90, fontsize=size)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem``.pdf and ``stem``.png without dates and versions, so that equal figures are equal files."""
    forms: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None, "Producer": None}, "png": {"Software": None}}
    paths = []
    for form, metadata in forms.items():
        content = io.BytesIO()
        figure.savefig(content, format=form, metadata=metadata, dpi=300)
        paths.append(write_whole(stem.with_name(f"{stem.name}.{form}"), content.getvalue()))
    return paths
