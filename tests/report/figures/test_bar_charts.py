from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from bench.report.figures import alpha_study, bar_charts
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number
from bench.types import SilobenchError

ROWS = (Row("FedAvg S", "fedavg"), Row("FedAvg L", "large"), Row("Silo", "local", checkpoints=("local",)))
SPEC = TableSpec("fenda/3", "Figure 3", "heart", "accuracy", ROWS)
PRINTED = [Number("FedAvg S", "global", 0.74, 0.01)]


@pytest.fixture
def table(choice):
    chosen = {
        "fedavg": choice([0.70, 0.70], [0.72, 0.74]),
        "large": choice([0.70, 0.75], None),
        "local": choice([0.74, 0.76], [0.76, 0.76]),
    }
    return build(SPEC, chosen, PRINTED)


def test_bars_are_solid_for_the_server_hatched_for_local_and_absent_without_a_number(table):
    axes = Figure().subplots()
    bar_charts._panel(axes, table)
    patches: Any = axes.patches
    *drawn, silo = patches
    assert [(bar.get_y() + bar.get_height(), bar.get_hatch()) for bar in drawn] == [
        (pytest.approx(0.715), ""),
        (pytest.approx(0.715), "/////"),
    ]
    # Runs .75 and .76: mean .755, radius 12.706 * .005.
    assert (silo.get_y(), silo.get_height()) == pytest.approx((0.755 - 0.0635, 2 * 0.0635), abs=1e-4)
    assert [text.get_text() for text in axes.texts] == ["missing 1/2", "missing 1/2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        r"FedAvg$_{\mathrm{S}}$",
        r"FedAvg$_{\mathrm{L}}$",
    ]
    assert axes.get_ylim()[0] == pytest.approx(float(axes.get_ylabel().split()[-1].rstrip(")")))


def test_figures_repeat_byte_for_byte_and_carry_no_date(table, tmp_path):
    first = bar_charts.bars([table, table], tmp_path / "first", title="Figure 3")
    second = bar_charts.bars([table, table], tmp_path / "second", title="Figure 3")
    assert [path.name for path in first] == ["first.pdf", "first.png"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"%PDF")
    assert b"CreationDate" not in first[0].read_bytes()


def test_a_table_without_numbers_is_no_figure(choice, tmp_path):
    table = build(SPEC, {name: choice(None) for name in ("fedavg", "large", "local")})
    with pytest.raises(SilobenchError, match="no cell has a number"):
        bar_charts.bars([table], tmp_path / "figure", title="Figure 3")
    assert list(tmp_path.iterdir()) == []


def test_the_alpha_study_is_drawn_the_same_whatever_the_order(tmp_path):
    runs = {0.1: [0.80, 0.82], 1.0: [0.79, None], 0.01: [0.78, 0.79]}
    first = alpha_study.alpha_study(runs, tmp_path / "first", title="APFL", metric="accuracy", printed={0.1: 0.801})
    turned = dict(reversed(runs.items()))
    second = alpha_study.alpha_study(turned, tmp_path / "second", title="APFL", metric="accuracy", printed={0.1: 0.801})
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_an_alpha_study_without_a_whole_rate_is_refused(tmp_path):
    with pytest.raises(SilobenchError, match="no learning rate for alpha"):
        alpha_study.alpha_study({0.1: [0.8, None], 1.0: []}, tmp_path / "figure", title="APFL", metric="accuracy")


def test_a_single_run_has_no_interval(choice):
    table = build(SPEC, {name: choice([0.70, 0.74]) for name in ("fedavg", "large", "local")})
    axes = Figure().subplots()
    bar_charts._panel(axes, table)
    assert axes.containers
    assert not any(isinstance(each, ErrorbarContainer) for each in axes.containers)


def test_a_figure_of_synthetic_data_says_so(table, tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, text: titles.append(text))
    bar_charts.bars([table, replace(table, synthetic=True)], tmp_path / "figure", title="Figure 3")
    assert titles == ["SYNTHETIC DATA: Figure 3"]
