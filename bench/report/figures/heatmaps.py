"""A heat map of a table's methods by clients.

Importing this module loads matplotlib, so import it only where something is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bench.report.figures.client_bars import rows_by_client
from bench.report.figures.style import (
    BLACK,
    COLUMN,
    PAGE,
    STYLE,
    heading,
    height_of,
    name_ticks,
    plain,
    save,
    worded,
)
from bench.report.tables.table import Cell, Table
from bench.types import SilobenchError

TURN = 30  # degrees that long names of clients are turned by


def heatmap(table: Table, stem: Path, *, title: str) -> list[Path]:
    """Draw every row of a table on every client (FENDA-FL, Figure 2) to ``stem``.pdf and ``stem``.png.

    Printed numbers are in parentheses below ours. Raise :class:`SilobenchError` if no client has a number.
    """
    lines = rows_by_client(table)
    values = np.array([[np.nan if cell.mean is None else cell.mean for cell in cells] for _, cells in lines])
    if np.isnan(values).all():
        raise SilobenchError(f"figure of {table.spec.id}: no client has a number; run the missing ones first")
    printed = any(cell.printed is not None for _, cells in lines for cell in cells)
    width = min(max(COLUMN, 1.2 + 0.42 * values.shape[1]), PAGE)
    height = 0.9 + (0.3 if printed else 0.2) * len(lines) + height_of(table.clients, TURN)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        shades = "cividis" if table.spec.sign > 0 else "cividis_r"
        image = axes.imshow(values, cmap=shades, aspect="auto")
        for row, (_, cells) in enumerate(lines):
            for column, cell in enumerate(cells):
                behind = "white" if cell.mean is None else image.to_rgba(np.array(cell.mean))
                words: dict[str, Any] = {"color": _readable_on(behind), "ha": "center", "va": "center", "fontsize": 5.5}
                axes.text(column, row, plain(_words(table, cell)), **words)
        name_ticks(axes, table.clients, TURN)
        axes.set_yticks(range(len(lines)), [plain(name) for name, _ in lines])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("tested on")
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(worded(table.spec.metric) + (" (printed in parentheses)" if printed else ""))
        heading(figure, title)
        return save(figure, stem)


def _readable_on(colour: Any) -> str:
    """Return black or white, whichever has more contrast (WCAG 2, relative luminance)."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return BLACK if np.dot(parts, (0.2126, 0.7152, 0.0722)) > 0.179 else "white"


def _words(table: Table, cell: Cell) -> str:
    ours = cell.note.replace(" ", "\n", 1) if cell.mean is None else f"{cell.mean:.{table.spec.digits}f}"
    return ours if cell.printed is None else f"{ours}\n({cell.printed:.{table.spec.digits}f})"
