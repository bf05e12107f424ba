"""The figure of a partition: bars of the right heights, from the command too."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from typer.testing import CliRunner

from bench.cli.main import app
from bench.report.figures import partition_bars


def test_every_bar_is_as_high_as_its_samples(monkeypatch, tmp_path):
    drawn: list[Figure] = []
    monkeypatch.setattr(partition_bars, "save", lambda figure, stem: drawn.append(figure) or [])
    counts = [[5, 0, 3], [1, 7, 2]]
    partition_bars.partition(counts, ["north", "south"], tmp_path / "p", title="Partition")
    figure: Any = drawn[0]
    by_class, by_client = figure.axes
    tops = [
        max(bar.get_y() + bar.get_height() for bar in by_class.patches if round(bar.get_x() + 0.4) == k)
        for k in range(3)
    ]
    assert tops == list(np.array(counts).sum(0))
    tops = [
        max(bar.get_y() + bar.get_height() for bar in by_client.patches if round(bar.get_x() + 0.4) == i)
        for i in range(2)
    ]
    assert tops == list(np.array(counts).sum(1))
    assert [tick.get_text() for tick in by_client.get_xticklabels()] == ["north", "south"]


def test_the_command_writes_it(tmp_path):
    result = CliRunner().invoke(app, ["data", "plot", "digits", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"digits.pdf", "digits.png"}
    assert mpl.image.imread(tmp_path / "digits.png").std() > 0
