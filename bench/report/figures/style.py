"""What figures share: sizes, colours that every eye can tell apart, titles, names and keys with the room they need.

Importing this loads matplotlib, so import it where something is drawn.
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

# Okabe and Ito, "Color Universal Design", 2008: told apart with every common form of colour blindness.
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
    """How the bar ``number`` of many is filled: colours, and hatches once they come again."""
    hatches = ("", *(each for each in HATCHES.values() if each))
    hatch = hatches[number // len(COLOURS) % len(hatches)]
    return {"facecolor": COLOURS[number % len(COLOURS)], "edgecolor": "white", "hatch": hatch}


def worded(name: str) -> str:
    """The name of a metric or a trace as words."""
    return name.replace("_", " ")


def wrapped(title: str, width: float) -> str:
    """``title`` in as few lines as fit into ``width`` inches, of which the axis takes half an inch, equally long."""
    characters_per_inch = 14

    def broken(letters: int) -> str:
        return textwrap.fill(title, letters, break_on_hyphens=False)

    most = int((width - 0.5) * characters_per_inch)
    lines = broken(most).count("\n")
    return broken(next(letters for letters in range(1, most + 1) if broken(letters).count("\n") <= lines))


def heading(figure: Figure, title: str) -> None:
    """Put ``title`` above everything; the figure grows by what it has lines beyond the first."""
    text = wrapped(title, figure.get_figwidth())
    figure.suptitle(text)
    figure.set_figheight(figure.get_figheight() + LINE * text.count("\n"))


def key(figure: Figure, entries: Sequence[Artist], *, handle: float = 1.4) -> None:
    """Put one key for all panels below them, in as many columns as fit; the figure grows by rows beyond the first.

    ``handle`` is the length of a sample of line or bar, in letters.
    """
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns = min(len(entries), max(1, int(figure.get_figwidth() / (0.45 + LETTER * longest))))
    figure.legend(handles=entries, ncols=columns, loc="outside lower center", handlelength=handle)
    figure.set_figheight(figure.get_figheight() + LINE * (math.ceil(len(entries) / columns) - 1))


def name_ticks(axes: Axes, names: Sequence[str], angle: float) -> None:
    """Name the places 0, 1, 2 ... of the horizontal axis; long names stand at an ``angle`` and end at their tick."""
    axes.set_xticks(range(len(names)), list(names))
    if _long(names):
        for label in axes.get_xticklabels():
            label.set(rotation=angle, ha="right", rotation_mode="anchor")


def height_of(names: Sequence[str], angle: float) -> float:
    """The inches that :func:`name_ticks` needs beyond those of a short name."""
    return LETTER * max(map(len, names)) * math.sin(math.radians(angle)) if _long(names) else 0.0


def _long(names: Sequence[str]) -> bool:
    return max(map(len, names)) > 3


def save(figure: Figure, stem: Path) -> list[Path]:
    """Both forms, without the dates and versions that would make equal figures differ."""
    forms: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None, "Producer": None}, "png": {"Software": None}}
    paths = []
    for form, metadata in forms.items():
        content = io.BytesIO()
        figure.savefig(content, format=form, metadata=metadata, dpi=300)
        paths.append(write_whole(stem.with_name(f"{stem.name}.{form}"), content.getvalue()))
    return paths
