from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from bench.report.figures import critical_difference
from bench.report.figures.style import COLUMN
from bench.report.ranks import rank

# Mean ranks 1, 2.25, 2.75 and 4 on 8 blocks; one critical difference is 1.66.
METHODS = ["FENDA-FL", "SCAFFOLD", "FedAvg", "Silo"]
VALUES = [[4, 3, 2, 1]] * 6 + [[4, 2, 3, 1]] * 2


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """The figure of a report instead of its files."""

    def draw(report, title="Ranks") -> Figure:
        figures: list[Figure] = []
        monkeypatch.setattr(critical_difference, "save", lambda figure, stem: figures.append(figure) or [])
        critical_difference.critical_difference(report, tmp_path / "ranks", title=title, block="data sets")
        return figures[0]

    return draw


def lines(figure, width):
    return [line for line in figure.axes[0].lines if line.get_linewidth() == width]


def test_bars_join_what_does_not_differ_and_the_ruler_is_one_critical_difference_long(drawn):
    report = rank(METHODS, VALUES)
    figure = drawn(report)
    thin, thick = (lines(figure, style["lw"]) for style in (critical_difference.THIN, critical_difference.THICK))
    line, ruler = (bar.get_xdata() for bar in (thin[0], thin[5]))
    scale = (line[1] - line[0]) / 3
    assert ruler[1] - ruler[0] == pytest.approx(scale * report.critical_difference)
    ends = [(bar.get_xdata() - line[0]) / scale + 1 for bar in thick]
    assert [end.round(1).tolist() for end in ends] == [[1.0, 2.3], [2.2, 2.8], [2.7, 4.0]]


def test_every_method_hangs_at_its_mean_rank(drawn):
    figure = drawn(rank(METHODS, VALUES))
    thin = lines(figure, critical_difference.THIN["lw"])
    left, right = thin[0].get_xdata()
    hooks = [hook.get_xdata()[0] for hook in thin if len(hook.get_xdata()) == 3]
    assert [1 + 3 * (x - left) / (right - left) for x in hooks] == pytest.approx([1, 2.25, 4, 2.75])
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert [text for text in texts if text in METHODS] == ["FENDA-FL", "SCAFFOLD", "Silo", "FedAvg"]
    assert texts[-1] == "mean rank over 8 data sets, 1 is best; Friedman p = 5.9e-05"


@pytest.mark.parametrize(("blocks", "k"), [(2, 2), (4, 3), (7, 12), (30, 20)])
@pytest.mark.parametrize("spread", [0.0, 9.0])
def test_nothing_overlaps_or_leaves_the_page(drawn, blocks, k, spread):
    names = [f"PLayer-FL-Random {i}" if i % 3 else f"A{i}" for i in range(k)]
    noise = np.random.default_rng(k).normal(size=(blocks, k))
    figure = drawn(rank(names, noise + spread * np.arange(k)), title="PLayer-FL, Table 1: macro-averaged F1 of methods")
    figure.draw_without_rendering()
    page = figure.bbox
    assert page.width == pytest.approx(COLUMN * figure.dpi)
    boxes = [text.get_window_extent() for text in [*figure.axes[0].texts, figure._suptitle] if text.get_text()]
    for number, box in enumerate(boxes):
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1
        assert not any(_common(box, other) > 1 for other in boxes[:number])
    for line in figure.axes[0].lines:
        assert 0 <= line.get_xdata().min() <= line.get_xdata().max() <= COLUMN


def _common(one: Bbox, other: Bbox) -> float:
    """The area, in square pixels, that two boxes share."""
    shared = Bbox.intersection(one, other)
    return 0.0 if shared is None else shared.width * shared.height


def test_files_repeat_byte_for_byte(tmp_path):
    report = rank(METHODS, VALUES)
    first = critical_difference.critical_difference(report, tmp_path / "first", title="Ranks")
    second = critical_difference.critical_difference(report, tmp_path / "second", title="Ranks")
    assert [path.name for path in first] == ["first.pdf", "first.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
