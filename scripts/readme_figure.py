"""Draw the README's figure: Table 2 of FENDA-FL on Fed-Heart-Disease, our intervals and the printed values.

    python scripts/readme_figure.py

Reads ``results/published/fenda/2-heart.csv`` and writes ``docs/images/fenda-table-2.png``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "results" / "published" / "fenda" / "2-heart.csv"
TARGET = ROOT / "docs" / "images" / "fenda-table-2.png"
CHECKPOINTS = {"global": "server", "local": "client"}
ALONE = ("Silo", "Central", "Central (as published)")
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"


def rows(source: Path) -> pd.DataFrame:
    """Return mean scores over clients, one row per method and checkpoint, with a ``label`` for the axis."""
    table = pd.read_csv(source)
    table = table[(table["client"] == "all") & ~table["method"].str.startswith("Client ")].reset_index(drop=True)
    table["label"] = [
        method if method in ALONE else f"{method}, {CHECKPOINTS[checkpoint]} checkpoint"
        for method, checkpoint in zip(table["method"], table["checkpoint"], strict=True)
    ]
    return table


def draw(table: pd.DataFrame, target: Path) -> None:
    """Draw ours (95 % interval) and printed values of ``table`` on one axis and save them as ``target``."""
    places = range(len(table))
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    silo = table.loc[table["method"] == "Silo", "mean"].item()
    axes.axvline(silo, color=GREY, linewidth=0.8, linestyle=":", label="Silo, re-run (each client trains alone)")
    axes.errorbar(
        table["mean"],
        places,
        xerr=table["ci95"],
        fmt="o",
        color=BLUE,
        markersize=4.5,
        capsize=2.5,
        label="re-run: mean and 95 % interval of 5 runs",
    )
    printed: dict[str, Any] = {"fmt": "D", "markersize": 5, "mfc": "none", "capsize": 2.5}
    axes.errorbar(
        table["printed"], places, xerr=table["printed_ci95"], color=ORANGE, label="printed in the paper", **printed
    )
    axes.set_yticks(places, table["label"])
    axes.invert_yaxis()
    axes.set_xlabel("accuracy, mean over four hospitals")
    axes.set_title("FENDA-FL, Table 2: Fed-Heart-Disease", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", linewidth=0.4, alpha=0.5)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    draw(rows(SOURCE), TARGET)
